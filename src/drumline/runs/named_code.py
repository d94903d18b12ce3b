"""Names of code outside of drumline in the files of a run folder, as `package.module:name`.

`api/foreign_code.py` asks here which code a command would import, before it imports any.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

ACTING_FIELDS = ("env", "env_kwargs", "policy", "network", "objective")
"""Fields of a config that name what acts: enough to run episodes, or to call an objective."""

_FIELDS = (*ACTING_FIELDS, "strategy", "initial", "env_kwargs")
_OWN_STRATEGY = re.compile(r"nevergrad:\w+")
"""Strategies with a colon whose code is that of an installed package that drumline knows."""

_PLACE = re.compile(r"[^\W\d]\w*(\.\w+)*:[^\W\d][\w.]*")
"""`package.module:name`: code in any other field, such as those of a method from outside."""


def code_of_config(method: Any, config: Mapping[str, Any]) -> list[str]:
    """Return the names in a config that refer to code, and its method if that does.

    >>> code_of_config("es", {"env": "nevergrad:x", "std": 0.1, "policy": "mlp"})
    ['nevergrad:x']
    >>> code_of_config("aes", {"env": "CartPole-v1", "strategy": "nevergrad:PSO"})
    []
    """
    found = [
        text
        for field, value in config.items()
        for text in _texts(_read(field, value))
        if _is(field, text)
    ]
    return [*found, *(text for text in _texts(method) if ":" in text)]


def code_of_acting(config: Mapping[str, Any]) -> list[str]:
    """Return the code that a config names for its environment and its policy."""
    return code_of_config("", {field: config.get(field, "") for field in ACTING_FIELDS})


def code_of_policy(document: Mapping[str, Any]) -> list[str]:
    """Return the names in a policy file that refer to code: environment, its options, networks.

    A `module` and an objective are code with or without a colon.
    """
    objective = document.get("objective", {})
    environment, policy = document.get("environment", {}), document.get("policy", {})
    options = environment.get("options") or {}
    network = policy.get("network") or {}
    named = [
        *_texts(environment.get("id")),
        *(text for value in options.values() for text in _texts(value)),
        *_texts(network.get("network")),
    ]
    return [
        *(text for text in named if ":" in text),
        *_texts(policy.get("module")),
        *_texts(objective.get("function")),
        *_texts(objective.get("module")),
    ]


def _read(field: str, value: Any) -> Any:
    """Return a field's value; of arguments for a constructor, what their JSON holds."""
    if field != "env_kwargs" or not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value else ""
    except (ValueError, RecursionError):
        return value


def _is(field: str, text: str) -> bool:
    if field == "strategy" and _OWN_STRATEGY.fullmatch(text):
        return False
    return ":" in text if field in _FIELDS else _PLACE.fullmatch(text) is not None


def _texts(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    return [value] if isinstance(value, str) else []
