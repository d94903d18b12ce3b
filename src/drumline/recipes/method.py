"""Form of a method, Drumline's own or one from outside: a frozen config that builds a recipe."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from drumline.envs.environment import Engine
from drumline.envs.packages import environment_packages, top_package
from drumline.recipes.chosen_environment import engine_of
from drumline.recipes.families import Config, Fields
from drumline.recipes.first_policies import start_of
from drumline.recipes.foreign_calls import CONFIG, called
from drumline.recipes.named_objects import place_of
from drumline.runs.start_policy import recorded
from drumline.training.layout import Layout
from drumline.training.run_request import Recipe

Presets = Mapping[str, Mapping[str, object]]
"""Environment id → the fields in which its preset differs from the defaults."""
GoesWith = Mapping[str, tuple[str, tuple[str, ...]]]
"""Field → another field, and those of its values, as text, that the first has an effect with."""
PresetsWith = Mapping[tuple[str, str], Callable[[str], Mapping[str, object]]]
"""Field and value → the preset of an environment beside that value."""

REQUIRED = ("env", "seed", "total_steps", "evaluate_every", "evaluate_episodes", "promise")
"""Fields that every method's config has; the run reads them."""


COMPARED_ON_A_DEVICE = frozenset(("hts", "ppo", "a2c", "td3", "aes", "cem-rl", "p-cem-rl", "erl"))
"""Methods whose trainings on a GPU have had equal bits (benchmarks/results/device_bits.csv)."""


FOUND_HERE = "inference_rows"
"""Setting that a machine's self-check finds, where a method has it; −1 before."""


class MethodConfig(Protocol):
    """A method's config: a frozen dataclass whose every field is an argument of the result.

    It has the fields of `REQUIRED`, of which `env` alone has no default. Optional members, with the
    value for a class without them:

    `LAYOUT`       class of the flags that change speed and never a bit (`Layout`)
    `PRESETS`      environment id → fields (none)
    `VARIANTS`     name for `--preset` → environment id → fields (none)
    `PRESETS_WITH` (field, value) → function from an environment id to the preset beside that value
    `GOES_WITH`    fields of presets that a setting without use for them takes away (none)
    `ENGINE`       engine that `auto` prefers where an environment has both ("gymnasium")
    `no_promise`   reason why results cannot be repeated ("": they can)
    `packages()`   installed packages that compute in a run (the environment's, and torch)
    `resolved()`   the config with what start-up checks found, as config.json has it (itself)
    """

    def build(self, layout: Any) -> Recipe:
        """Return the parts of a run on a layout; names become functions here and nowhere else."""
        ...


def without_findings(config: Any) -> Any:
    """Return a config whose self-checks are made anew: the bits of another machine are not kept."""
    found = hasattr(config, FOUND_HERE)
    return dataclasses.replace(config, **{FOUND_HERE: -1}) if found else config


@dataclasses.dataclass(frozen=True)
class Method:
    """A method by its name, with the defaults of optional members of its config."""

    name: str
    config: type[Config]
    package: str = ""
    """Installed package that registered it; empty for Drumline's own, and for a class by place."""

    @property
    def outside(self) -> bool:
        """Whether its class is from outside Drumline."""
        return not self.config.__module__.startswith("drumline.")

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of its config's fields."""
        return frozenset(field.name for field in dataclasses.fields(self.config))

    @property
    def layout(self) -> type[Layout]:
        """Return the class of its layout flags."""
        return getattr(self.config, "LAYOUT", Layout)

    @property
    def prefers(self) -> Engine:
        """Return the engine of environments that both engines have."""
        return getattr(self.config, "ENGINE", "gymnasium")

    @property
    def goes_with(self) -> GoesWith:
        """Return the fields of presets that have an effect with some values of another field."""
        return getattr(self.config, "GOES_WITH", {})

    @property
    def presets_with(self) -> PresetsWith:
        """Return the presets that take the place of others beside some values of fields."""
        return getattr(self.config, "PRESETS_WITH", {})

    @property
    def deciding(self) -> tuple[str, ...]:
        """Return the fields on whose values an environment's preset depends."""
        others = [other for other, _ in self.goes_with.values()]
        return tuple(dict.fromkeys([*others, *(name for name, _ in self.presets_with)]))

    def with_effect(self, fields: Mapping[str, Any], typed: Mapping[str, str]) -> Fields:
        """Return a file's fields without those that another value of a `typed` one decides.

        A file has them resolved: `--lag 0` has another default of `correction` than the file's lag.
        """
        decided = {
            name
            for name, (other, _) in self.goes_with.items()
            if other in typed and str(fields.get(other, typed[other])) != typed[other]
        }
        return {name: value for name, value in fields.items() if name not in decided}

    def preset(
        self, env_id: str, variant: str = "", beside: Mapping[str, Any] = MappingProxyType({})
    ) -> Fields:
        """Return the fields in which an environment's preset differs from the defaults.

        Those without effect beside given settings are left away (`GOES_WITH`), and some settings
        have presets of their own (`PRESETS_WITH`). Raises `ValueError` for a variant that the
        method or the environment does not have.
        """
        for (name, value), preset_of in self.presets_with.items():
            if beside.get(name) != value:
                continue
            if variant:
                flag = f"--{name.replace('_', '-')} {value}"
                raise ValueError(f"{self.name} has no --preset {variant} with {flag}")
            own_fields = self._called("PRESETS_WITH", preset_of, env_id)
            return self._with_effect({name: value, **own_fields}, beside)
        if not variant:
            own: Presets = getattr(self.config, "PRESETS", {})
            return self._with_effect(own.get(env_id, {}), beside)
        variants: Mapping[str, Presets] = getattr(self.config, "VARIANTS", {})
        if variant not in variants:
            there = ", ".join(variants) or "none but each environment's own"
            raise ValueError(f"{self.name} has no --preset {variant!r}: there is {there}")
        if env_id not in variants[variant]:
            raise ValueError(
                f"{self.name} has no --preset {variant} for {env_id}: it has one for "
                f"{', '.join(variants[variant])}"
            )
        return self._with_effect(variants[variant][env_id], beside)

    def _with_effect(self, preset: Mapping[str, object], beside: Mapping[str, Any]) -> Fields:
        left = dict(preset)
        for name, (other, values) in self.goes_with.items():
            if other in beside and str(beside[other]) not in values:
                left.pop(name, None)
        return left

    def packages(self, config: Config) -> tuple[str, ...]:
        """Return installed packages that compute in a run, besides NumPy and Gymnasium."""
        if hasattr(config, "packages"):
            named = self._called("packages", config.packages)
        else:
            named = torch_packages(config, self.prefers)
        return (*named, self.package) if self.package else tuple(named)

    def resolved(self, config: Config) -> Config:
        """Return the config that a run records, with its engine and the self-checks' findings.

        A package that is installed later must not change a resumed or repeated run.
        """
        if (device := self.device(config)) and not self.outside:
            from drumline.functional.torch_devices import device_of  # imports torch

            device_of(device)
        if hasattr(config, "engine") and config.env:
            engine = engine_of(config, self.prefers)
            config = dataclasses.replace(config, engine=engine)
        if start := start_of(config):
            config = dataclasses.replace(config, start_from=recorded(start))
        return self._called("resolved", config.resolved) if hasattr(config, "resolved") else config

    def built(self, config: Config, layout: Layout) -> Recipe:
        """Return the parts of a run; raises `ValueError` for any error of a method from outside."""
        recipe = self._called("build", config.build, layout)
        if not hasattr(recipe, "opened"):
            raise ValueError(
                f"{self.name}: build returned {type(recipe).__name__}, not one of the recipes "
                "GenerationalRecipe, SteadyRecipe, StreamRecipe and RotationRecipe"
            )
        return recipe

    def made(self, env: Any, variant: str | None = "", **settings: Any) -> Config:
        """Return the config of an environment's preset with `settings`; `None`: of no preset.

        `env` may be a class or a function at the top of a module.
        """
        env_id = env if isinstance(env, str) else place_of("env", env)
        preset = {} if variant is None else self.preset(env_id, variant, settings)
        return self._called(CONFIG, self.config, env=env_id, **{**preset, **settings})

    def without_preset(self, env_id: str) -> str:
        """Return a sentence for an environment that the method has no preset for; else nothing."""
        presets: Presets = getattr(self.config, "PRESETS", {})
        if env_id in presets or not presets:
            return ""
        return (
            f"{self.name} has no preset for {env_id}: every setting begins with the default of "
            f"{self.config.__name__}"
        )

    def refuse_unknown(self, settings: Mapping[str, Any]) -> None:
        """Raise `ValueError` for a setting that the method does not have, with the nearest."""
        for name in settings:
            if name not in self.fields:
                near = difflib.get_close_matches(name, sorted(self.fields), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"{self.name} has no setting {name!r}{hint}")

    def made_for(self, objective: Any, **settings: Any) -> Config:
        """Return the config of an objective, `module:function`; ValueError if none can be given."""
        if not hasattr(self.config, "OBJECTIVE"):
            raise ValueError(
                f"{self.name} has no --objective: es, ars, cem and aes search one; give ENV"
            )
        return self.config(objective=objective, **{**self.config.OBJECTIVE, **settings})

    def configured(self, values: Mapping[str, Any]) -> Config:
        """Return the config with these fields."""
        return self._called(CONFIG, self.config, **values)

    def no_promise(self, config: Config) -> str:
        """Return why a run cannot be repeated; empty if it can."""
        reason: str = getattr(config, "no_promise", "")
        if not reason and (device := self.device(config)):
            if not self.outside:
                from drumline.functional.torch_devices import not_compared  # imports torch

                reason = not_compared(device)
            if not reason and self.name not in COMPARED_ON_A_DEVICE:
                reason = f"computed on {device}: bits of {self.name} were not compared on a GPU"
        return reason or ("" if config.promise else "trained with --no-promise")

    def device(self, config: Config) -> str:
        """Return the device of a config's learner; empty on the host, and for other methods.

        A method from outside may mean something else by a field of that name: there it must be one
        of torch's devices.
        """
        device: object = getattr(config, "device", "")
        if not isinstance(device, str) or device in ("", "cpu"):
            return ""
        if self.outside:
            from drumline.functional.torch_devices import is_device  # imports torch

            return device if is_device(device) else ""
        return device

    def _called(self, doing: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call the config's code; an error of code from outside becomes one sentence."""
        if not self.outside:
            return call(*arguments, **named)
        return called(self.name, doing, call, *arguments, **named)


def torch_packages(config: Config, prefers: Engine = "gymnasium") -> tuple[str, ...]:
    """Return the packages that compute in a run whose learner is torch's."""
    engine = engine_of(config, prefers)
    network = str(getattr(config, "network", "mlp"))
    module = (top_package(network),) if ":" in network else ()
    return (*environment_packages(config.env, engine), "torch", *module)
