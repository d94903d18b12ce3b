"""A search of one's own, from outside the package: its update, its promise and its commands."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles import KillAt
from typed_commands import Terminal
from whole_runs import lasting_bytes, run_on

from drumline import answer, seeding
from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.commands import timings
from drumline.runs.folder import RunFolder
from drumline.training.layout import Layout

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from own_search import PEPG, SymmetricSearch

SMALL = PEPG(
    env="CartPole-v1",
    total_steps=500,
    population_size=4,
    hidden=(4,),
    evaluate_every=3,
    evaluate_episodes=2,
)
TYPED = [
    "--total-steps=300",
    "--population-size=4",
    "--hidden",
    "4",
    "--evaluate-episodes=2",
    "--pool=inline",
    "--no-tensorboard",
    "--quiet",
]


def told(search: SymmetricSearch, returns: list[float], *, backwards: bool = False) -> Any:
    """Tell a generation the returns of its members, by member."""
    tasks = search.ask(len(returns))
    results = [answer(task, value) for task, value in zip(tasks, returns, strict=True)]
    return search.tell(results[::-1] if backwards else results)


def test_the_update_is_that_of_the_paper_in_a_slow_loop():
    config = replace(SMALL, population_size=6)
    search = SymmetricSearch(config, np.array([0.5, -1.0, 2.0]))
    told(search, [4.0, 1.0, 0.0, 2.0, 5.0, 5.0])
    before = search.state()
    mean, std = before.tensors["mean"].astype(float), before.tensors["std"].astype(float)
    baseline = float(before.counters["baseline"])
    noise = seeding.generator(0, "pepg-deviations", 1).standard_normal((3, 3), dtype=np.float32)
    returns = [3.0, 1.0, 2.0, 6.0, 0.0, 1.0]
    told(search, returns)
    scale = np.std(returns)
    for p in range(3):
        slope = spread = 0.0
        for i in range(3):
            plus, minus, d = returns[2 * i], returns[2 * i + 1], std[p] * noise[i, p]
            slope += d * (plus - minus) / (2 * scale) / 3
            spread += (d**2 - std[p] ** 2) / std[p] * ((plus + minus) / 2 - baseline) / scale / 3
        step = np.clip(config.std_rate * spread, -0.2 * std[p], 0.2 * std[p])
        after = search.state().tensors
        assert after["mean"][p] == pytest.approx(mean[p] + config.mean_rate * slope, abs=1e-5)
        assert after["std"][p] == pytest.approx(std[p] + step, abs=1e-6)
    rate = config.baseline_rate
    expected = (1 - rate) * baseline + rate * np.mean(returns)
    assert search.state().counters["baseline"] == pytest.approx(expected)


def test_the_order_of_the_results_changes_no_bit():
    one, other = (SymmetricSearch(SMALL, np.zeros(3)) for _ in range(2))
    assert told(one, [1.0, 2.0, 0.0, 3.0]) == told(other, [1.0, 2.0, 0.0, 3.0], backwards=True)
    assert one.state().tensors["std"].tobytes() == other.state().tensors["std"].tobytes()


def test_a_loaded_state_goes_on_with_the_same_bits():
    one, other = (SymmetricSearch(SMALL, np.zeros(3)) for _ in range(2))
    told(one, [1.0, 2.0, 0.0, 3.0])
    other.load(one.state())
    for search in (one, other):
        told(search, [0.0, 2.0, 5.0, 3.0])
    for name, array in one.published().items():
        assert array.tobytes() == other.published()[name].tobytes(), name


@pytest.mark.parametrize("equal", [7.0, -8.3])  # the std of six times -8.3 is not 0
def test_equal_returns_change_neither_mean_nor_std(equal: float):
    search = SymmetricSearch(replace(SMALL, population_size=6), np.zeros(3))
    told(search, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    before = search.state().tensors
    assert told(search, [equal] * 6)["update_skipped"] == 1.0
    assert all(np.array_equal(before[name], search.state().tensors[name]) for name in before)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "run"
    return lasting_bytes(train(SMALL, workers="inline", out=out).folder)


@pytest.mark.faults
def test_a_killed_worker_of_two_changes_no_byte(tmp_path: Path, expected: dict[str, bytes]):
    probe = KillAt("episode-begun", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SMALL, Layout(workers=2), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected


def test_a_run_resumed_on_another_layout_equals_an_uninterrupted_one(
    tmp_path: Path, expected: dict[str, bytes]
):
    first = train(replace(SMALL, total_steps=200), workers="inline", out=tmp_path / "run")
    again = resume(first.folder, Layout(workers=1), total_steps=SMALL.total_steps, trust=TRUSTED)
    assert lasting_bytes(again.folder) == expected


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def test_the_commands_take_it_as_one_of_drumlines_own(terminal: Terminal):
    ended = terminal("train", "own_search:PEPG", "CartPole-v1", *TYPED, "--out=run")
    assert ended.code == 0, ended.err
    document = RunFolder.open("run").document
    assert document["method"] == "own_search:PEPG"
    assert document["config"]["evaluate_every"] == 10  # its preset

    refused = terminal("resume", "run", "--total-steps=400")
    assert refused.code == 2
    assert "drumline resume run --total-steps=400 --trust-code" in refused.err
    resumed = terminal.line(refused.err[refused.err.index("drumline resume") :] + " --pool=inline")
    assert resumed.code == 0, resumed.err

    assert terminal("verify", "run").code == 2
    verified = terminal("verify", "run", "--trust-code", "--updates=2", "--pool=inline")
    assert (verified.code, verified.out[:5]) == (0, "equal"), verified.err
    assert terminal("evaluate", "run", "--trust-code", "--episodes=1").code == 0
    assert terminal("report", "run").code == 0
    assert "own_search:PEPG" in Path("report.html").read_text()
    episode = terminal("episode", "run", "--member=1", "--trust-code")
    assert episode.code == 0, episode.err


def test_doctor_predicts_its_speed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timings, "SECONDS", 0.01)
    ended = terminal("doctor", "CartPole-v1", "--method=own_search:PEPG", "--json")
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)["measured"]
    assert measured["method"] == "own_search:PEPG"
    assert measured["predicted"][0]["env_steps_per_second"] > 0
    assert measured["bottleneck"] in ("environment", "forward")


def test_help_shows_the_presets_values(terminal: Terminal):
    ended = terminal("train", "own_search:PEPG", "CartPole-v1", "--help")
    assert ended.code == 0
    assert "--baseline-rate" in ended.out
    assert "100000" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_solved_within_its_presets_steps(tmp_path: Path, seed: int):
    config = PEPG(env="CartPole-v1", seed=seed, **PEPG.PRESETS["CartPole-v1"])
    run = train(config, workers="inline", out=tmp_path / "run")
    assert run.evaluate(episodes=20).mean >= 475
