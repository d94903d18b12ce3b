"""An error between an update and its record never puts a state under another update's number."""

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from whole_runs import SMALL_P_CEM_RL, folder_for, lasting_bytes, run_on

from drumline.api.opened_runs import silent
from drumline.api.run import resume
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runs.checkpoint import checkpoint_numbers
from drumline.training.ledger import Ledger
from drumline.training.run_request import RunRequest

SMALL = {"env": "CartPole-v1", "hidden": (4,), "evaluate_every": 2, "evaluate_episodes": 2}
CONFIGS: dict[str, Any] = {
    "es": ES(**SMALL, total_steps=600, population_size=4, noise_table_size=1 << 12),
    "hts": HTS(
        **SMALL, total_steps=640, engine="gymnasium", num_envs=4, alpha=16, minibatches=1, epochs=1
    ),
    "td3": TD3(
        **SMALL, total_steps=200, steps_per_update=20, random_steps=20, replay_size=99, batch_size=4
    ),
    "p-cem-rl": dataclasses.replace(SMALL_P_CEM_RL, total_steps=160),
}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv")


@pytest.mark.parametrize(
    ("method", "before_the_row"),
    cases(
        product(CONFIGS, (True, False)),
        quick=[("es", True), ("es", False), ("hts", True), ("td3", False)],
    ),
)
def test_a_run_out_of_memory_at_its_record_goes_on_to_the_same_bits(
    method: str, before_the_row: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = CONFIGS[method]
    layout = method_of(config).layout(pool="inline", tensorboard=False, checkpoint_minutes=1e9)
    whole = run_on(tmp_path / "whole", config, layout)
    recorded = Ledger.record

    def fails(ledger: Ledger, update: int, *given: Any, **more: Any) -> None:
        if update == 3 and before_the_row:
            raise MemoryError
        recorded(ledger, update, *given, **more)
        if update == 3:
            raise MemoryError

    folder = folder_for(tmp_path / "run", config, layout)
    run = config.build(layout).opened(RunRequest(folder, layout, silent()))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", fails)
        with pytest.raises(MemoryError):
            run.run()
    assert checkpoint_numbers(folder) == [0]
    resume(folder, layout)
    assert lasting_bytes(folder, LASTING) == lasting_bytes(whole, LASTING)
