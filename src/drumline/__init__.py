"""Parallel policy search with the same bits for any number of workers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumline.algorithms.ars import ARS as ARSStrategy
    from drumline.algorithms.async_es import AsyncES
    from drumline.algorithms.learning_state import UnfiniteLoss
    from drumline.algorithms.mirrored import answer
    from drumline.algorithms.openai_es import OpenAIES
    from drumline.api.evaluation import EvaluationResult
    from drumline.api.foreign_code import UntrustedCode
    from drumline.api.run import Run, configure, load, train
    from drumline.envs.environment import EnvironmentProblem
    from drumline.envs.episode import NonFinite
    from drumline.errors import (
        CallbackFailed,
        ImpureEnvironment,
        ObjectiveProblem,
        RoleKilled,
        StrategyFailed,
        TaskKilledWorkers,
        WorkerError,
        WorkersLost,
    )
    from drumline.recipes.a2c import A2C
    from drumline.recipes.aes import ACEMRL, AES, OnePlusOne
    from drumline.recipes.ars import ARS
    from drumline.recipes.cem import CEM
    from drumline.recipes.cem_rl import CEMRL
    from drumline.recipes.erl import ERL
    from drumline.recipes.es import ES
    from drumline.recipes.hts import HTS
    from drumline.recipes.impala import Impala
    from drumline.recipes.p_cem_rl import PCEMRL
    from drumline.recipes.ppo import PPO
    from drumline.recipes.td3 import TD3
    from drumline.runs.recorder import RecordingFailed
    from drumline.runs.run_error import RunError
    from drumline.training.callbacks import Callbacks
    from drumline.training.layout import Layout
    from drumline.training.stopped import Stopped
    from drumline.workers.transition_stream import UnfiniteTransition

    __version__: str

_PLACES = {
    "A2C": ("drumline.recipes.a2c", "A2C"),
    "ACEMRL": ("drumline.recipes.aes", "ACEMRL"),
    "AES": ("drumline.recipes.aes", "AES"),
    "ARS": ("drumline.recipes.ars", "ARS"),
    "ARSStrategy": ("drumline.algorithms.ars", "ARS"),
    "AsyncES": ("drumline.algorithms.async_es", "AsyncES"),
    "CEM": ("drumline.recipes.cem", "CEM"),
    "CEMRL": ("drumline.recipes.cem_rl", "CEMRL"),
    "CallbackFailed": ("drumline.errors", "CallbackFailed"),
    "Callbacks": ("drumline.training.callbacks", "Callbacks"),
    "ERL": ("drumline.recipes.erl", "ERL"),
    "ES": ("drumline.recipes.es", "ES"),
    "EnvironmentProblem": ("drumline.envs.environment", "EnvironmentProblem"),
    "EvaluationResult": ("drumline.api.evaluation", "EvaluationResult"),
    "HTS": ("drumline.recipes.hts", "HTS"),
    "Impala": ("drumline.recipes.impala", "Impala"),
    "ImpureEnvironment": ("drumline.errors", "ImpureEnvironment"),
    "Layout": ("drumline.training.layout", "Layout"),
    "NonFinite": ("drumline.envs.episode", "NonFinite"),
    "ObjectiveProblem": ("drumline.errors", "ObjectiveProblem"),
    "OnePlusOne": ("drumline.recipes.aes", "OnePlusOne"),
    "OpenAIES": ("drumline.algorithms.openai_es", "OpenAIES"),
    "PCEMRL": ("drumline.recipes.p_cem_rl", "PCEMRL"),
    "PPO": ("drumline.recipes.ppo", "PPO"),
    "RecordingFailed": ("drumline.runs.recorder", "RecordingFailed"),
    "RoleKilled": ("drumline.errors", "RoleKilled"),
    "Run": ("drumline.api.run", "Run"),
    "RunError": ("drumline.runs.run_error", "RunError"),
    "Stopped": ("drumline.training.stopped", "Stopped"),
    "StrategyFailed": ("drumline.errors", "StrategyFailed"),
    "TD3": ("drumline.recipes.td3", "TD3"),
    "TaskKilledWorkers": ("drumline.errors", "TaskKilledWorkers"),
    "UnfiniteLoss": ("drumline.algorithms.learning_state", "UnfiniteLoss"),
    "UnfiniteTransition": ("drumline.workers.transition_stream", "UnfiniteTransition"),
    "UntrustedCode": ("drumline.api.foreign_code", "UntrustedCode"),
    "WorkerError": ("drumline.errors", "WorkerError"),
    "WorkersLost": ("drumline.errors", "WorkersLost"),
    "answer": ("drumline.algorithms.mirrored", "answer"),
    "configure": ("drumline.api.run", "configure"),
    "load": ("drumline.api.run", "load"),
    "train": ("drumline.api.run", "train"),
}

__all__ = [
    "A2C",
    "ACEMRL",
    "AES",
    "ARS",
    "CEM",
    "CEMRL",
    "ERL",
    "ES",
    "HTS",
    "PCEMRL",
    "PPO",
    "TD3",
    "ARSStrategy",
    "AsyncES",
    "CallbackFailed",
    "Callbacks",
    "EnvironmentProblem",
    "EvaluationResult",
    "Impala",
    "ImpureEnvironment",
    "Layout",
    "NonFinite",
    "ObjectiveProblem",
    "OnePlusOne",
    "OpenAIES",
    "RecordingFailed",
    "RoleKilled",
    "Run",
    "RunError",
    "Stopped",
    "StrategyFailed",
    "TaskKilledWorkers",
    "UnfiniteLoss",
    "UnfiniteTransition",
    "UntrustedCode",
    "WorkerError",
    "WorkersLost",
    "__version__",
    "answer",
    "configure",
    "load",
    "train",
]


def __dir__() -> list[str]:
    """Return the public names, which completion shows."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing drumline stays cheap."""
    if name == "__version__":
        from importlib.metadata import version

        return version("drumline")
    if name not in _PLACES:
        raise AttributeError(f"module 'drumline' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
