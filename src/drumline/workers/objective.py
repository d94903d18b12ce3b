"""An objective: a function of the user's own of parameters and a seed.

    fitness(parameters: ndarray [P], seed: int) → float
    fitness(module: torch.nn.Module, seed: int) → float      with a module of the user's own
    fitness(…, seeds: ndarray [K]) → K values                with K seeds a call; their mean counts
    fitness(members, seeds: ndarray [M]) → M values          with M members a call, one seed each

A call is a pure function of the parameters and the seed. One value, of one seed, counts as one env
step in every counter and column. torch is imported only for a module, or by the user's own code.
"""

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from drumline import seeding
from drumline.envs.episode import GREATEST, NonFinite
from drumline.errors import ObjectiveProblem
from drumline.functional import perturbation
from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import Pieces
from drumline.functional.torch_threads import torch_settings_kept


@dataclass(frozen=True)
class Objective:
    """An objective as a picklable record, also as policy files hold it."""

    function: str
    """`package.module:function`"""
    module: str | None = None
    """`package.module:Class` of the torch module that it takes; None: it takes a vector."""
    dimensions: int = 0
    """Number of parameters P."""
    seed: int = 0
    """Seed under which the module is made: its buffers are alike in every process."""
    seeds_per_call: int = 1
    """Seeds, and values, of one call."""
    precision: str = "fp32"
    """Precision of the module's own tensors, fp32 or bf16; vectors are float32."""
    trainable: str = ""
    """Regular expression of the names of the module's searched parameters."""
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Name and shape of each searched parameter, in the order of the vector."""
    members_per_call: int = 1
    """Members of one call, at most; above 1 the function takes a module of several members."""


class ObjectiveFunction:
    """An objective in this process: imported, with its module made, and with checked values."""

    def __init__(
        self, objective: Objective, low_rank: LowRank | None = None, noise_seed: int | None = None
    ):
        """`low_rank`, `noise_seed`: noise of members; without, every member is θ itself."""
        self._objective = objective
        self._call = load_function(objective.function)
        self._members: Any = None
        self._argument: Callable[[Pieces], Any] = self._vector
        if objective.module is not None:
            from drumline.policies.searched_module import SearchedModule

            options = {"precision": objective.precision, "trainable": objective.trainable}
            module = SearchedModule(objective.module, objective.seed, **options)
            refuse_other_parameters(objective.module, module.shapes, objective.tensors)
            self._argument = module.with_pieces
            if objective.members_per_call > 1:
                from drumline.policies.module_members import ModuleMembers

                layout = low_rank or LowRank(1, tuple(shape for _, shape in objective.tensors))
                noise = LowRankNoise(noise_seed or 0, layout)
                self._members = ModuleMembers(module, layout, noise)
        self._limited = False

    def __call__(self, vector: np.ndarray, seed: int) -> tuple[float, ...]:
        """Return the values of one call at a vector `[P]`."""
        return self.at(perturbation.pieces_of(vector), seed)

    def at(self, pieces: Pieces, seed: int) -> tuple[float, ...]:
        """Return the values of one call, which may keep and overwrite what it is given.

        The parameters come in pieces, so that a module's own tensors are their only copy here. The
        global generators are seeded from `seed` first.
        """
        self._limit_torch()
        count = self._objective.seeds_per_call
        argument = self._argument(pieces)
        given = np.array(seeding.seeds(seed, count, "objective"), np.int64) if count > 1 else seed
        returned = _plain(self._called(argument, given, seed))
        if count == 1:
            values = (self._number(returned),)
        else:
            values = tuple(map(float, self._numbers(returned, (count,))))
        self._check_finite(values, np.ravel(given).tolist())
        return values

    def _called(self, argument: Any, given: Any, seed: int) -> Any:
        """Call the function under a seed; again if only this call has brought torch in.

        Its generator is seeded, and it has one thread, from the second call on alone.
        """
        had_torch = "torch" in sys.modules
        spare = None if had_torch else (argument.copy(), copy(given))
        seeding.seed_globals(seed)
        returned = self._call(argument, given)
        if spare is not None and "torch" in sys.modules:
            self._limit_torch()
            seeding.seed_globals(seed)
            returned = self._call(*spare)
        return returned

    def _check_finite(self, values: tuple[float, ...], seeds: Sequence[int]) -> None:
        for value, seed in zip(values, seeds, strict=True):
            if not math.isfinite(value):
                raise NonFinite(
                    f"the objective {self._objective.function} returned {value} for seed {seed}: "
                    "it must return a finite number, such as a low one for parameters that fail"
                )
            if abs(value) >= GREATEST:
                raise NonFinite(
                    f"the objective {self._objective.function} returned {value} for seed {seed}, "
                    f"and means are taken of values within ±{GREATEST:g}: a penalty such as -1e9 "
                    "is low enough"
                )

    def unperturbed(self, vector: np.ndarray, seeds: Sequence[int]) -> list[tuple[float, ...]]:
        """Return the values at a vector `[P]` for each seed: of as many members, or of one call."""
        if self._members is None:
            return [self(vector, seed) for seed in seeds]
        return self.of_members(0, vector, [(0, 0.0)] * len(seeds), seeds)

    def proved(self, vector: np.ndarray, seed: int) -> tuple[float, ...]:
        """Return the values of one call that a proof is over: with members of two of them."""
        if self._members is None:
            return self(vector, seed)
        rows = self.of_members(0, vector, [(0, 0.1), (0, -0.1)], [seed, seed + 1])
        return (*rows[0], *rows[1])

    def of_members(
        self,
        version: int,
        parameters: np.ndarray,
        members: Sequence[tuple[int, float]],
        seeds: Sequence[int],
    ) -> list[tuple[float, ...]]:
        """Return the values of each member (noise key, scale) in one call at θ `[P]`.

        Every member has a seed of its own; the global generators are seeded from the first one.
        """
        self._limit_torch()
        count = self._objective.seeds_per_call
        self._members.publish(version, parameters)
        argument = self._members.perturbed(members)
        given = np.array(seeds, np.int64)
        if count > 1:
            given = np.array([seeding.seeds(seed, count, "objective") for seed in seeds], np.int64)
        seeding.seed_globals(seeds[0])
        values = self._numbers(_plain(self._call(argument, given)), given.shape)
        rows = [tuple(map(float, row)) for row in values.reshape(len(seeds), count)]
        for own, row in zip(given.reshape(len(seeds), count).tolist(), rows, strict=True):
            self._check_finite(row, own)
        return rows

    def _vector(self, pieces: Pieces) -> np.ndarray:
        vector = np.empty(self._objective.dimensions, np.float32)
        for start, piece in pieces:
            vector[start : start + piece.size] = piece
        return vector

    def _limit_torch(self) -> None:
        """Give torch one thread, once it is there: the user's own code may import it."""
        if not self._limited and "torch" in sys.modules:
            from drumline.functional.torch_threads import limit_torch

            limit_torch(1)
            self._limited = True

    def _number(self, returned: Any) -> float:
        plain = getattr(returned, "shape", ()) == () and not isinstance(returned, (str, bytes))
        try:
            if plain and not np.iscomplexobj(returned):
                return float(returned)
        except (TypeError, ValueError, OverflowError):
            pass
        raise self._refusal(returned, "one number: return a float, as in float(score.mean())")

    def _numbers(self, returned: Any, shape: tuple[int, ...]) -> np.ndarray:
        try:
            values = np.asarray(returned).astype(np.float64, casting="same_kind")
        except (TypeError, ValueError, OverflowError):
            values = np.zeros(())
        if values.shape != shape:
            count, flags = self._objective.seeds_per_call, "--seeds-per-call"
            words = f"{shape[0]} numbers, one for each seed ({flags} {count})"
            if self._members is not None:
                flags = f"--members-per-call {self._objective.members_per_call}"
                words = f"{shape[0]} numbers, one for each member ({flags})"
                if count > 1:
                    words = f"numbers {list(shape)}, {count} for each member ({flags})"
            raise self._refusal(returned, words)
        return values

    def _refusal(self, returned: Any, wanted: str) -> ObjectiveProblem:
        return ObjectiveProblem(
            f"the objective {self._objective.function} returned {_kind(returned)} instead of "
            f"{wanted}"
        )


def refuse_other_parameters(
    path: str, here: Mapping[str, Sequence[int]], searched: Sequence[tuple[str, Sequence[int]]]
) -> None:
    """Raise ObjectiveProblem unless a module has the names and shapes that a run has searched.

    Files of earlier versions have none of them.
    """
    if not searched:
        return
    ours = [f"{name} {list(shape)}" for name, shape in here.items()]
    theirs = [f"{name} {list(shape)}" for name, shape in searched]
    for number, (one, other) in enumerate(zip_longest(ours, theirs, fillvalue="none")):
        if one != other:
            raise ObjectiveProblem(
                f"--policy {path!r} has other parameters than the run has searched: {one} as its "
                f"number {number + 1}, in the place of {other}. Has its class changed?"
            )


@torch_settings_kept()
def load_callable(path: str, flag: str) -> Callable[..., Any]:
    """Return the callable `package.module:name` that `flag` names; ObjectiveProblem if none."""
    module_name, _, name = path.partition(":")
    if not (module_name and name) or "/" in module_name or module_name.startswith("."):
        raise ObjectiveProblem(
            f"{flag} {path!r} is no place of a function: write module:function, without / and .py"
        )
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ObjectiveProblem(
            f"{flag} {path!r} cannot be imported ({error}): write module:function; "
            "the current directory is importable"
        ) from error
    if not callable(found):
        raise ObjectiveProblem(f"{flag} {path!r} is a {type(found).__name__}, not a function")
    return found


def load_function(path: str) -> Callable[..., Any]:
    """Return the objective of a name; ObjectiveProblem unless it takes parameters and a seed."""
    function = load_callable(path, "--objective")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables of extension modules have none
        return function
    try:
        signature.bind(None, 0)
    except TypeError as error:
        raise ObjectiveProblem(
            f"the objective {path} cannot be called with (parameters, seed) ({error}): it is "
            f"defined with {signature}"
        ) from None
    return function


def _plain(value: Any) -> Any:
    """Return tensors as arrays, those in a list too: of bfloat16 and with gradients as well."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.double() if value.is_floating_point() else value).numpy()


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    if isinstance(value, list):
        return f"a list of {len(value)} values"
    return f"a {name}" if shape in (None, ()) else f"a {name} of shape {tuple(shape)}"
