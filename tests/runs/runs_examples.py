"""Rows and documents that the tests of the run folder write."""

from pathlib import Path

import numpy as np

from drumline.runs.folder import RunFolder
from drumline.types import EpisodeRow, EvaluationRow, State, UpdateRecord


def new_folder(path: Path) -> RunFolder:
    return RunFolder.create(
        path,
        method="es",
        env_id="ALE/Pong-v5",
        seed=3,
        document={"config": {"env": "", "std": 0.02}},
    )


def example_state(update: int = 0) -> State:
    rng = np.random.default_rng(update)
    return State(
        {
            "theta": rng.normal(size=(3, 4)).astype(np.float32),
            "adam_m": rng.normal(size=5),
            "scale": np.array(1.5),
            "journal": np.arange(6, dtype=np.uint8).reshape(2, 3),
            "done": np.array([True, False]),
            "empty": np.zeros((0, 2), np.float32),
        },
        {"updates": update, "reward_std": 0.1 + update, "stream": 2**127 + 1, "best": -np.inf},
    )


def example_record(update: int) -> UpdateRecord:
    rng = np.random.default_rng(1000 + update)
    return UpdateRecord(
        update,
        {"env_steps": 100 * update, "return_mean": rng.normal(), "gradient_norm": rng.normal()},
        {"parameters": rng.normal(size=7).astype(np.float32), "mean": rng.normal(size=2)},
        tuple(EpisodeRow(update, m, s, rng.normal(), 9 + m) for m in range(2) for s in (1, -1)),
    )


def example_evaluation(update: int) -> EvaluationRow:
    returns = np.random.default_rng(2000 + update).normal(size=5)
    return EvaluationRow(update, 100 * update, tuple(map(float, returns)), (9, 9, 9, 9, 10))
