"""The table of methods: a name, its config, its presets and how it is built."""

import dataclasses
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumline.envs.make import Engine, resolve_engine
from drumline.recipes import (
    a2c,
    actor_critic,
    aes,
    ars,
    cem,
    cem_rl,
    erl,
    es,
    hts,
    impala,
    lockstep,
    ppo,
    td3,
)
from drumline.recipes.layout import (
    ActorLayout,
    Layout,
    LockstepLayout,
    RotationLayout,
    SearchLayout,
    SteadyLayout,
    StreamLayout,
)
from drumline.recipes.population import PopulationRun
from drumline.recipes.rotation import RotationRun
from drumline.recipes.steady import SteadyRun
from drumline.recipes.stream import StreamRun


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    config: type
    preset: Callable[[str], dict[str, Any]]
    build: Callable[[Any, Any], Any]
    """(config, layout) → a recipe."""
    run: Callable[..., Any]
    """(recipe, folder, layout, display, resumed_from=…) → what `run()` trains."""
    packages: Callable[[Any], tuple[str, ...]]
    """config → installed packages that compute in a run, besides NumPy and Gymnasium."""
    layout: type[Layout] = Layout
    resolve: Callable[[Any], Any] = lambda config: config
    """config → the same with what the start-up self-checks found."""
    prefers: Engine = "gymnasium"
    """The engine of environments that both have."""
    no_promise: str = ""
    """Why results of this method cannot be repeated; empty: they can."""


def _steady(config: type, recipe: Any, preset: Any, layout: type[Layout] = Layout) -> Method:
    resolve = getattr(config, "resolved", lambda config: config)
    return Method(config, preset, recipe.build, SteadyRun, recipe.packages, layout, resolve)


def _actor_critic(config: type, preset: Any, build: Any, layout: Any, resolve: Any) -> Method:
    packages = actor_critic.packages
    return Method(config, preset, build, RotationRun, packages, layout, resolve, prefers="envpool")


METHODS: dict[str, Method] = {
    es.METHOD: Method(es.ES, es.preset, es.build, PopulationRun, es.packages, SearchLayout),
    ars.METHOD: Method(ars.ARS, ars.preset, ars.build, PopulationRun, ars.packages, SearchLayout),
    **{
        name: _steady(config, aes, aes.preset, SteadyLayout)
        for name, config in (
            (aes.METHOD, aes.AES),
            (aes.ONE_PLUS_ONE, aes.OnePlusOne),
            (aes.ACEM_RL, aes.ACEMRL),
        )
    },
    cem.METHOD: Method(cem.CEM, cem.preset, cem.build, PopulationRun, cem.packages),
    cem_rl.METHOD: _steady(cem_rl.CEMRL, cem_rl, cem_rl.preset),
    cem_rl.PARALLEL: _steady(cem_rl.PCEMRL, cem_rl, cem_rl.parallel_preset, SteadyLayout),
    erl.METHOD: _steady(erl.ERL, erl, erl.preset),
    td3.METHOD: Method(td3.TD3, td3.preset, td3.build, StreamRun, td3.packages, StreamLayout),
    hts.METHOD: _actor_critic(hts.HTS, hts.preset, hts.build, RotationLayout, hts.resolve),
    a2c.METHOD: _actor_critic(a2c.A2C, a2c.preset, a2c.build, LockstepLayout, lockstep.resolve),
    ppo.METHOD: _actor_critic(ppo.PPO, ppo.preset, ppo.build, LockstepLayout, lockstep.resolve),
    impala.METHOD: dataclasses.replace(
        _actor_critic(
            impala.Impala, impala.preset, impala.build, ActorLayout, actor_critic.resolve
        ),
        no_promise=impala.NO_PROMISE,
    ),
}


_LATE: dict[str, Any] = {
    "strategy_budget": 0,
    "policy": "mlp",
    "final_entropy_coefficient": None,
    "anneal_clip": False,
}
"""Fields that older run folders lack, and what they did."""


def find_method(name: str) -> Method:
    """Return the method; raises with the nearest name."""
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"unknown method {name!r}: there are {', '.join(METHODS)}{hint}")
    return METHODS[name]


def method_of(config: Any) -> str:
    """Return the name of the method whose config this is."""
    for name, method in METHODS.items():
        if type(config) is method.config:
            return name
    raise ValueError(f"{type(config).__name__} is not a method's config")


def resolved(config: Any) -> Any:
    """Return the config that a run records: with its engine, and what the self-checks found.

    What is installed later must not change a run that goes on or is repeated.
    """
    method = find_method(method_of(config))
    engine = resolve_engine(config.env, config.engine, method.prefers)
    return method.resolve(dataclasses.replace(config, engine=engine))


def with_late_fields(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a config's fields with those that came after the run was made."""
    known = {field.name for field in dataclasses.fields(find_method(name).config)}
    return {**{late: value for late, value in _LATE.items() if late in known}, **fields}


def with_late_settings(document: dict[str, Any]) -> dict[str, Any]:
    """Return a run's document; one from before a setting says what those say that left it out."""
    return {**document, "config": with_late_fields(document["method"], document["config"])}


def config_from(name: str, fields: dict[str, Any]) -> Any:
    """Return the config that a run folder's document describes."""
    method = find_method(name)
    known = {field.name for field in dataclasses.fields(method.config)}
    if unknown := sorted(set(fields) - known):
        raise ValueError(f"config.json has fields that {name} does not know: {', '.join(unknown)}")
    fields = with_late_fields(name, fields)
    if missing := sorted(known - set(fields)):
        raise ValueError(f"config.json lacks fields of {name}: {', '.join(missing)}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return method.config(**values)
