"""Objectives of the user's own in a config: its fields and their checks, and the parts of a run."""

import re
import sys
from typing import Any, Protocol

import numpy as np

from drumline import seeding
from drumline.envs.packages import top_package
from drumline.recipes.families import Config
from drumline.recipes.first_policies import checked_vector, trained_vector
from drumline.recipes.foreign_calls import called
from drumline.recipes.named_objects import name_objects
from drumline.workers.objective import Objective, load_callable, load_function

OF_MODULES = ("working_precision", "trainable")
OBJECTIVE_FIELDS = ("initial", "dimensions", "seeds_per_call", *OF_MODULES)
"""Fields that only a config with an objective may set."""
_LIBRARIES = {
    "torch": "torch",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "jax": "jax",
    "jaxlib": "jaxlib",
}
"""Module → package whose version is recorded where an objective has loaded it."""


class Searched(Protocol):
    """Fields of a config that may have an objective."""

    @property
    def seed(self) -> int:
        """Root of every random stream."""
        ...

    @property
    def objective(self) -> str:
        """module:function; empty with an environment."""
        ...

    @property
    def policy(self) -> str:
        """module:Class of a torch module, or the method's own word for none."""
        ...

    @property
    def dimensions(self) -> int:
        """Number of parameters that begin at 0; 0: by another field."""
        ...

    @property
    def initial(self) -> str:
        """module:function of the first parameters; empty: by another field."""
        ...

    @property
    def seeds_per_call(self) -> int:
        """Seeds of one call."""
        ...

    @property
    def working_precision(self) -> str:
        """Precision of a module's tensors in a worker: fp32 or bf16."""
        ...

    @property
    def trainable(self) -> str:
        """Regular expression of the names of a module's searched parameters; empty: all."""
        ...


def check_objective(config: Any, environment_fields: tuple[str, ...]) -> None:
    """Name objects that were given themselves; refuse fields that do not go together.

    `environment_fields` speak of environments and their policies: with an objective they must be
    left at their defaults.
    """
    name_objects(config)
    if bool(config.env) == bool(config.objective):
        given = f"got {config.env!r} and {config.objective!r}" if config.env else "got neither"
        raise ValueError(
            f"give an environment or --objective module:function, one of both; {given}"
        )
    if config.env:
        for field in OBJECTIVE_FIELDS:
            if getattr(config, field) != getattr(type(config), field):
                raise ValueError(
                    f"{_typed(config, field)} goes with --objective, and not with an environment"
                )
        return
    if ":" not in config.objective:
        raise ValueError(f"--objective {config.objective!r} is no place: write module:function")
    if config.policy != type(config).policy and ":" not in config.policy:
        raise ValueError(
            f"--policy {config.policy!r} goes with an environment: with --objective it is "
            "package.module:Class of a torch.nn.Module, or left out"
        )
    for field in environment_fields:
        if getattr(config, field) != getattr(type(config), field):
            raise ValueError(
                f"{_typed(config, field)} goes with an environment, and --objective has none: "
                "leave it out"
            )
    if ":" not in config.policy:
        for field in OF_MODULES:
            if getattr(config, field) != getattr(type(config), field):
                raise ValueError(
                    f"{_typed(config, field)} goes with a torch module: give --policy "
                    "package.module:Class too"
                )
    try:
        re.compile(config.trainable)
    except re.error as error:
        raise ValueError(
            f"--trainable {config.trainable!r} is no regular expression: {error}"
        ) from None
    if config.dimensions < 0:
        raise ValueError(f"--dimensions must be 1 or more, got {config.dimensions}")
    if config.seeds_per_call < 1:
        raise ValueError(f"--seeds-per-call must be 1 or more, got {config.seeds_per_call}")
    given = [
        words
        for words, there in (
            (f"--policy {config.policy}", ":" in config.policy),
            (f"--dimensions {config.dimensions}", config.dimensions),
            (f"--initial {config.initial}", config.initial),
        )
        if there
    ]
    if len(given) > 1:
        raise ValueError(
            f"{' and '.join(given)} contradict each other: each says what the first parameters are"
        )


def searched_objective(config: Searched) -> tuple[Objective, np.ndarray]:
    """Return the objective of a config and its first parameters `[P]`; imports the user's code."""
    module, initial = config.policy if ":" in config.policy else None, config.initial
    seed = seeding.seeds(config.seed, 1, "initial-parameters")[0]
    trained = trained_vector(config)
    if trained is not None and module is not None and trained.seed is not None:
        seed = trained.seed  # what is frozen in the module is drawn from it
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    with seeding.kept_globals():
        if module is not None:
            from drumline.policies.searched_module import SearchedModule

            options = {"trainable": config.trainable}
            made = called(module, "making the module", SearchedModule, module, seed, **options)
            vector, tensors = made.vector(), tuple(made.shapes.items())
        elif initial:
            vector = _initial_vector(initial, seed)
        elif config.dimensions:
            vector = np.zeros(config.dimensions, np.float32)
        else:
            raise ValueError(
                f"the objective {config.objective} needs its number of parameters: give "
                "--dimensions N (they begin at 0), --initial module:function (seed → first "
                "parameters) or --policy module:Class (a torch.nn.Module)"
            )
        called(config.objective, "importing it", load_function, config.objective)
    if trained is not None:
        vector = checked_vector(config, trained, module, vector)
    objective = Objective(
        config.objective,
        module,
        vector.size,
        seed,
        config.seeds_per_call,
        config.working_precision,
        config.trainable,
        tensors,
        members_per_call=getattr(config, "members_per_call", 1),
    )
    return objective, vector


def objective_packages(config: Searched) -> tuple[str, ...]:
    """Return the packages that compute in a run of an objective, which is imported already."""
    named = [name for name in (config.objective, config.policy, config.initial) if ":" in name]
    loaded = [package for module, package in _LIBRARIES.items() if module in sys.modules]
    return (*map(top_package, named), *loaded)


def _initial_vector(path: str, seed: int) -> np.ndarray:
    make = called(path, "importing it", load_callable, path, "--initial")
    had_torch = "torch" in sys.modules
    seeding.seed_globals(seed)
    returned = called(path, "making the first parameters", make, seed)
    if not had_torch and "torch" in sys.modules:  # whose generator was not seeded
        seeding.seed_globals(seed)
        returned = called(path, "making the first parameters", make, seed)
    if np.iscomplexobj(returned):
        raise ValueError(f"--initial {path} returned complex numbers: return one vector of floats")
    try:
        vector = np.asarray(returned, np.float32)
    except (TypeError, ValueError, RuntimeError):
        vector = np.zeros(())
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        got = f"shape {vector.shape}" if vector.ndim else type(returned).__name__
        fault = got if vector.ndim != 1 or not vector.size else "numbers that are not finite"
        raise ValueError(
            f"--initial {path} returned {fault}: return one vector of finite numbers, such as "
            "numpy.zeros(10)"
        )
    return vector.copy()


def _typed(config: Config, field: str) -> str:
    value, flag = getattr(config, field), field.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
    return f"--{flag} {shown}"
