"""Table of methods: a name and its config; and a config from a run folder's document."""

import dataclasses
import difflib
from typing import get_type_hints

from drumline.recipes import outside_methods
from drumline.recipes.a2c import A2C
from drumline.recipes.aes import ACEMRL, AES, OnePlusOne
from drumline.recipes.ars import ARS
from drumline.recipes.cem import CEM
from drumline.recipes.cem_rl import CEMRL
from drumline.recipes.erl import ERL
from drumline.recipes.es import ES
from drumline.recipes.families import Config, Fields
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.method import Method
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runs.strict_json import check_fields

METHODS: dict[str, Method] = {
    name: Method(name, config)
    for name, config in (
        ("es", ES),
        ("ars", ARS),
        ("aes", AES),
        ("one-plus-one", OnePlusOne),
        ("acem-rl", ACEMRL),
        ("cem", CEM),
        ("cem-rl", CEMRL),
        ("p-cem-rl", PCEMRL),
        ("erl", ERL),
        ("td3", TD3),
        ("hts", HTS),
        ("a2c", A2C),
        ("ppo", PPO),
        ("impala", Impala),
    )
}

_LATE: dict[str, object] = {
    "strategy_budget": 0,
    "policy": "mlp",
    "final_entropy_coefficient": None,
    "anneal_clip": False,
    "learning_rate_decay": 1.0,
    "learning_rate_floor": 0.0,
    "evaluate_max_steps": 0,
    "max_episode_steps": 0,
    "evaluate_sample": False,
    "range_spread": 0.0,
    "variance_from": "all",
    "staleness_discount": 1.0,
    "recentred": False,
    "tie_tolerance": 0.0,
    "reward_shift": 0.0,
    "refined_from": "samples",
    "objective": "",
    "initial": "",
    "dimensions": 0,
    "seeds_per_call": 1,
    "env_kwargs": "",
    "flatten_observations": False,
    "normalization": "auto",
    "working_precision": "fp32",
    "trainable": "",
    "subspace": 0,
    "mirrored": True,
    "initialization": "column-normalized",
    "output_scale": 0.01,
    "members_per_call": 1,
    "baseline": "critic",
    "device": "cpu",
    "start_from": "",
}
"""Fields that older run folders lack, with the values that those runs had."""
_REFINED: dict[str, object] = {
    "network": "mlp",
    "activation": "tanh",
    "critic_activation": "leaky-relu",
    "scale_bytes": False,
}
_LATE_OF: dict[str, dict[str, object]] = {
    "ars": {"policy": "linear"},
    **{name: {"network": "mlp", "scale_bytes": False} for name in ("td3", "cem")},
    "erl": {"scale_bytes": False},
    **{name: _REFINED for name in ("aes", "one-plus-one", "acem-rl", "cem-rl", "p-cem-rl")},
}
"""The same, of one method."""


_RENAMED = {("0.1.", "hts", "correction", "decoupled"): "truncated-is"}
"""(Version, method, field, its value then) → value that means the same now."""


_ELSEWHERE = {
    "sac": "soft actor-critic is own_off_policy:SAC in the folder examples, and td3 is its nearest "
    "relative here",
    "ddpg": "td3 is its successor",
    "dqn": "td3 takes discrete actions too, and ppo is the usual choice for them",
    "rainbow": "ppo is the usual choice for discrete actions",
    "a3c": "impala is its successor, and a2c its form without lag",
    "apex": "impala and hts are the parallel ones",
    "reinforce": "it is a2c --baseline none",
    "trpo": "ppo is its successor",
    "ppo2": "did you mean ppo?",
    "openaies": "did you mean es?",
    "evolutionstrategies": "did you mean es?",
    "neat": "erl has a genetic algorithm, and es is the usual choice",
    "ga": "erl has a genetic algorithm",
    "cma": "it is aes --strategy cma --p-desired 0 --mean-evaluations 0",
    "cmaes": "it is aes --strategy cma --p-desired 0 --mean-evaluations 0",
    "snes": "it is aes --strategy snes --p-desired 0 --mean-evaluations 0",
    "pepg": "it is own_search:PEPG in the folder examples",
    "htsrl": "did you mean hts?",
    "aesrl": "did you mean aes?",
}
"""Method of other libraries, without dashes → where to find it here, or what comes near."""


def find_method(name: str) -> Method:
    """Return a method of Drumline's, of an installed package, or of `package.module:Class`.

    Raises `ValueError` with the nearest name, or with the fault of a class from outside.
    """
    if not isinstance(name, str):
        raise ValueError(f"a method is given by its name, as in 'es', got {name!r}")
    if ":" in name:
        return outside_methods.method_at(name)
    others = outside_methods.registered()
    if name in METHODS and name in others:
        raise ValueError(
            f"{name!r} is Drumline's own method and one of an installed package: to train that, "
            f"name its class: drumline train {others[name][0].value} ENV; else uninstall the "
            "package"
        )
    if name in METHODS:
        return METHODS[name]
    if name in others:
        return outside_methods.method_of_entry_point(outside_methods.only(others[name]))
    there = [*METHODS, *others]
    plain = name.lower().replace("_", "-")
    close = difflib.get_close_matches(plain, there, n=1, cutoff=0.7)
    hint = f"; did you mean {close[0]}?" if close else ""
    if words := _ELSEWHERE.get(plain.replace("-", "")):
        hint = f"; {words}"
    raise ValueError(
        f"unknown method {name!r}: there are {', '.join(there)}{hint}; "
        "your own is package.module:Class"
    )


def method_of(config: Config) -> Method:
    """Return the method of a config; raises `ValueError` if no method has its class."""
    for method in METHODS.values():
        if type(config) is method.config:
            return method
    return outside_methods.method_of_class(type(config), METHODS)


def with_late_fields(name: str, fields: Fields) -> Fields:
    """Return a config's fields, with those added to Drumline after the run was made."""
    if name not in METHODS:  # and reading a run folder imports no code from outside
        return fields
    known = {field.name for field in dataclasses.fields(METHODS[name].config)}
    late = {**_LATE, **_LATE_OF.get(name, {})}
    return {**{field: value for field, value in late.items() if field in known}, **fields}


def with_late_settings(document: Fields) -> Fields:
    """Return a run's document in the words of this version of Drumline.

    Settings that an older version did not have get the values that its runs had, and those that it
    called otherwise their present names.
    """
    name, fields = document["method"], dict(document["config"])
    for (version, method, field, before), now in _RENAMED.items():
        made_by = str(document.get("drumline", ""))
        if made_by.startswith(version) and method == name and fields.get(field) == before:
            fields[field] = now
    for field in ("env", "seed"):
        if field not in fields:
            raise ValueError(f"config.json lacks fields of {name}: {field}")
    fields = with_late_fields(name, fields)
    if name in METHODS and hasattr(kind := METHODS[name].config, "unread"):
        # Older versions took values that nothing reads.
        fields |= {field: getattr(kind, field) for field in kind.unread(fields)}
    return {**document, "config": fields}


def config_from(document: Fields) -> Config:
    """Return the config that a run folder's document describes."""
    name, fields = document["method"], with_late_settings(document)["config"]
    method = find_method(name)
    known = {field.name for field in dataclasses.fields(method.config)}
    if unknown := sorted(set(fields) - known):
        raise ValueError(f"config.json has fields that {name} does not know: {', '.join(unknown)}")
    if missing := sorted(known - set(fields)):
        raise ValueError(f"config.json lacks fields of {name}: {', '.join(missing)}")
    if not method.outside:
        try:
            check_fields(fields, get_type_hints(method.config))
        except ValueError as error:
            raise ValueError(f"config.json is damaged: {error}") from None
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return method.configured(values)
