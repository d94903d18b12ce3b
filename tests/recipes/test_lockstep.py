"""Lock-step A2C and PPO: the bits of batch synchronisation, in any order of waiting."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import FAULTS, cases
from doubles import KillAt
from whole_runs import run_on

from drumline.api.run import resume, train
from drumline.commands.verify import verify_again
from drumline.recipes.a2c import A2C
from drumline.recipes.hts import HTS
from drumline.recipes.ppo import PPO
from drumline.runtime.crews.exchange import REQUESTED
from drumline.training import interval_course
from drumline.training.layout import LockstepLayout
from drumline.workers.actor import Answers

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "engine": "gymnasium",
    "total_steps": 360,
    "num_envs": 5,
    "alpha": 12,
    "hidden": (8,),
    "normalize_observations": True,
    "scale_rewards": True,
    "evaluate_every": 3,
    "evaluate_episodes": 2,
}
CONFIGS: dict[str, Any] = {
    "ppo": PPO(**SMALL, epochs=2, minibatches=3),
    "a2c": replace(A2C(**SMALL), alpha=5),
    "envpool": replace(PPO(**SMALL, epochs=2, minibatches=3), engine="envpool", renew_intervals=2),
}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv")


def lasting_bytes(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in LASTING}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """Update of `hts --lag 0` from the same settings: no step of it is in lock-step."""
    out = tmp_path_factory.mktemp("expected")
    made: dict[str, dict[str, bytes]] = {}
    for name, config in CONFIGS.items():
        same = {field.name: getattr(config, field.name) for field in fields(config)}
        assert same.pop("baseline", "critic") == "critic"  # hts always has a critic
        correction = config.correction_used
        hts = HTS(**same, learner=config.learner, lag=0, correction=correction)
        made[name] = lasting_bytes(train(hts, workers="inline", out=out / name).path)
    return made


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("ppo", LockstepLayout(pool="inline")),
        pytest.param("ppo", LockstepLayout(), marks=FAULTS),
        pytest.param("a2c", LockstepLayout(), marks=FAULTS),
        ("envpool", LockstepLayout(pool="inline")),
        pytest.param("envpool", LockstepLayout(), marks=FAULTS),
        ("ppo", LockstepLayout(pool="inline", executors=3, halves=2)),
        pytest.param("envpool", LockstepLayout(executors=2), marks=FAULTS),
        pytest.param("envpool", LockstepLayout(engine_threads=1), marks=FAULTS),
        ("a2c", LockstepLayout(executors=2, halves=2)),
    ],
    ids=lambda x: x if isinstance(x, str) else f"{x.pool}-{x.executors}-{x.halves}",
)
def test_every_layout_gives_the_bits_of_hts_without_lag(
    tmp_path: Path, expected: Any, name: str, layout: LockstepLayout
):
    folder = run_on(tmp_path / "run", CONFIGS[name], layout)
    assert lasting_bytes(folder.path) == expected[name]
    rows = folder.processes_csv.read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows].count("executor") == max(layout.executors, 1)


def test_without_a_baseline_layouts_and_a_resume_keep_the_bits_which_are_others(
    tmp_path: Path, expected: Any
):
    config = replace(CONFIGS["a2c"], baseline="none")
    inline = LockstepLayout(pool="inline")
    whole = run_on(tmp_path / "whole", config, inline)
    assert lasting_bytes(whole.path) != expected["a2c"]
    head = whole.metrics_csv.read_text().splitlines()[0].split(",")
    assert "policy_loss" in head
    assert not {"value_loss", "explained_variance"} & set(head)
    apart = run_on(tmp_path / "apart", config, LockstepLayout(executors=2, halves=2))
    assert lasting_bytes(apart.path) == lasting_bytes(whole.path)
    first = train(replace(config, total_steps=150, anneal=False), layout=inline, out=tmp_path / "a")
    more = resume(first.folder, inline, total_steps=config.total_steps)
    again = run_on(tmp_path / "b", replace(config, anneal=False), inline)
    assert lasting_bytes(more.path) == lasting_bytes(again.path)


@pytest.mark.parametrize(
    ("layout", "turns", "groups"),
    [
        (LockstepLayout(), [[0, 1, 2, 3, 4]], 1),
        (LockstepLayout(executors=3), [[0, 1, 2, 3, 4]], 3),
        (LockstepLayout(executors=3, halves=2), [[0, 2, 4], [1, 3]], 5),
        (LockstepLayout(executors=1, halves=2), [[0, 1, 2], [3, 4]], 2),
    ],
    ids=["alone", "three", "three-in-halves", "one-in-halves"],
)
def test_executors_step_in_halves_only_if_they_are_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Any, turns: Any, groups: int
):
    answered: list[list[int]] = []
    points: list[str] = []

    class Watched(Answers):
        def give(self, environments: np.ndarray) -> bool:
            asked = environments[self._exchange.state[environments] == REQUESTED]
            answered.append(asked.tolist())
            return super().give(environments)

    monkeypatch.setattr(interval_course, "Answers", Watched)
    config = replace(CONFIGS["a2c"], total_steps=50, promise=False)
    inline = replace(layout, pool="inline")
    run_on(tmp_path / "run", config, inline, probe=lambda: points.append)
    assert [asked for asked in answered if asked] == turns * 2 * config.alpha
    assert points.count("before-step") == groups * 2 * config.alpha


@pytest.mark.parametrize(
    ("name", "point"),
    [
        pytest.param("ppo", "request-sent", marks=FAULTS),
        pytest.param("envpool", "half-row", marks=pytest.mark.slow),
    ],
)
def test_a_killed_executor_changes_no_byte(tmp_path: Path, expected: Any, name: str, point: str):
    probe = KillAt(point, tmp_path / "flag")
    layout = LockstepLayout(executors=2, halves=2)
    folder = run_on(tmp_path / "run", CONFIGS[name], layout, probe=probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder.path) == expected[name]


@pytest.mark.parametrize("name", cases(CONFIGS, quick=["a2c"]))
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, expected: Any, name: str):
    folder = run_on(tmp_path / "run", CONFIGS[name], LockstepLayout(), last_update=2)
    resume(folder, LockstepLayout(executors=2))
    assert lasting_bytes(folder.path) == expected[name]


@FAULTS
def test_verify_repeats_it_on_other_processes(tmp_path: Path):
    run = train(CONFIGS["a2c"], out=tmp_path / "run")
    layout = LockstepLayout(executors=3, tensorboard=False)
    assert verify_again(run.folder, 4, layout) == (4, None)


def test_halves_of_what_one_process_steps_are_refused():
    with pytest.raises(ValueError, match=r"--halves 2 goes with --executors .*--workers"):
        LockstepLayout(halves=2)
    assert LockstepLayout(halves=2, workers=2).executors_for(5) == 2


def test_more_executors_than_environments_are_refused():
    with pytest.raises(ValueError, match="--executors 6 is more than the 5 environments"):
        CONFIGS["ppo"].build(LockstepLayout(executors=6))


def test_a_run_folder_names_its_correction(tmp_path: Path):
    small = {"env": "CartPole-v1", "num_envs": 2, "alpha": 4, "minibatches": 1, "epochs": 1}
    for learner, correction in (("ppo", "truncated-is"), ("a2c", "delayed")):
        config = HTS(**small, learner=learner, total_steps=8, evaluate_every=0)
        run = train(config, workers="inline", out=tmp_path / learner)
        assert run.folder.document["config"]["correction"] == correction


def test_the_default_correction_is_for_the_lag_that_there_is():
    assert HTS(env="CartPole-v1").correction_used == "truncated-is"
    assert HTS(env="CartPole-v1", lag=0).correction_used == "ppo-ratio"
    for lag in (0, 1):
        assert HTS(env="CartPole-v1", learner="a2c", lag=lag).correction_used == "delayed"
        assert HTS(env="CartPole-v1", lag=lag, correction="none").correction_used == "none"
