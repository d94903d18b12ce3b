"""Calls from Python: settings of the layout, names of other libraries, and what is raised."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from typed_commands import Terminal

import drumline
from drumline.api.process_as_found import process_as_found
from drumline.training.layout import ActorLayout

SMALL: dict[str, Any] = {
    "total_steps": 64,
    "num_envs": 2,
    "alpha": 8,
    "epochs": 1,
    "minibatches": 2,
    "hidden": (4,),
    "engine": "gymnasium",
    "evaluate_every": 0,
    "evaluate_episodes": 1,
}
SEARCH: dict[str, Any] = {
    "total_steps": 100,
    "population_size": 4,
    "hidden": (4,),
    "noise_table_size": 4096,
    "evaluate_episodes": 1,
}


class TurnsNaN(gymnasium.Env):
    """Observations are NaN from the third step on."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self._step += 1
        value = np.nan if self._step > 2 else 0.0
        return np.full(2, value, np.float32), 1.0, self._step == 9, False, {}


def test_settings_of_the_layout_are_arguments_of_train_and_resume(tmp_path: Path):
    run = drumline.train(
        "hts", "CartPole-v1", executors=2, hang_seconds=50, out=tmp_path / "run", **SMALL
    )
    assert run.folder.document["layout"]["executors"] == 2
    assert run.folder.document["layout"]["hang_seconds"] == 50
    run.resume(total_steps=96, executors=1, pool="inline", progress=False)
    assert run.metrics[-1]["env_steps"] == 96
    with pytest.raises(ValueError, match=r"not alpha: a run keeps its config"):
        run.resume(alpha=4)


def test_a_layout_and_settings_beside_it_are_refused(tmp_path: Path):
    layout = ActorLayout(pool="inline")
    for beside in ({"executors": 2}, {"workers": 2}):
        with pytest.raises(ValueError, match=r"a layout is given, and (executors|workers) beside"):
            drumline.train("hts", "CartPole-v1", layout=layout, out=tmp_path / "run", **beside)
    assert not (tmp_path / "run").exists()


def test_names_of_other_libraries_and_numbers_as_people_write_them_are_understood():
    for theirs, ours in (("lr", "learning_rate"), ("gamma", "discount"), ("n_envs", "num_envs")):
        with pytest.raises(ValueError, match=f"no setting '{theirs}': it is called {ours}"):
            drumline.configure("ppo", "CartPole-v1", **{theirs: 1})
    config = drumline.configure("ppo", "CartPole-v1", total_steps=1e5)
    assert (config.total_steps, type(config.total_steps)) == (100_000, int)
    with pytest.raises(ValueError, match=r"whole number, got 1\.5"):
        drumline.train("ppo", "CartPole-v1", total_steps=1.5, workers="inline")


@pytest.mark.parametrize("workers", ["inline", 1])
def test_an_exception_of_drumlines_own_is_raised_as_itself(tmp_path: Path, workers: Any):
    with pytest.raises(drumline.NonFinite, match=r"TurnsNaN, episode seed \d+, step 3"):
        drumline.train("es", TurnsNaN, preset=None, workers=workers, out=tmp_path / "run", **SEARCH)


def test_an_evaluation_draws_actions_where_the_runs_own_did(tmp_path: Path):
    config = drumline.configure("ppo", "CartPole-v1", evaluate_sample=True, **SMALL)
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    drawn, likely = run.evaluate(4), run.evaluate(4, sample=False)
    assert drawn == run.evaluate(4, sample=True)
    assert drawn.actions != likely.actions


@pytest.mark.parametrize("method", ["ppo", "td3"])
def test_a_default_of_float64_neither_breaks_nor_changes_a_training(tmp_path: Path, method: str):
    import torch

    settings = SMALL if method == "ppo" else {"total_steps": 60, "hidden": (4,), "batch_size": 4}
    settings |= {} if method == "ppo" else {"random_steps": 20, "steps_per_update": 20}
    found = []
    for number, dtype in enumerate((torch.float32, torch.float64)):
        torch.set_default_dtype(dtype)
        try:
            run = drumline.train(
                method, "CartPole-v1", workers="inline", out=tmp_path / f"{number}", **settings
            )
            assert torch.get_default_dtype() == dtype
            found.append(run.parameters().tobytes())
        finally:
            torch.set_default_dtype(torch.float32)
    assert found[0] == found[1]


def modes() -> dict[str, Any]:
    import torch

    return {
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "device": lambda: torch.device("meta"),
    }


@pytest.mark.parametrize("env", ["CartPole-v1", "pixel_environment:make"])
def test_the_callers_modes_of_torch_change_no_bit(tmp_path: Path, env: str):
    plain = drumline.train("ppo", env, workers="inline", out=tmp_path / "plain", **SMALL)
    for name, mode in modes().items():
        with mode():
            run = drumline.train("ppo", env, workers="inline", out=tmp_path / name, **SMALL)
        first, second = (one.folder.fingerprints_csv.read_bytes() for one in (plain, run))
        assert first == second, name


def test_small_numbers_that_the_caller_flushes_are_kept_in_a_call():
    import torch

    one = np.float32(1.0)
    assert torch.set_flush_denormal(True)
    try:
        assert np.float32(1e-40) * one == 0.0
        with process_as_found():
            assert np.float32(1e-40) * one > 0.0
        assert np.float32(1e-40) * one == 0.0
    finally:
        torch.set_flush_denormal(False)


def test_runs_of_several_seeds_are_found_in_their_folder(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--seeds", "0-1", "--out=runs/both")
    assert terminal("evaluate", "last", "--episodes=1").code == 0
    assert "runs/both/s1" in terminal("evaluate", "last", "--episodes=1", "--json").out
    listed = terminal("list").out
    assert "both/s0" in listed
    assert "both/s1" in listed
    compared = terminal("compare", "runs/both", "--out=c.png")
    assert compared.code == 0, compared.err
    assert " 2 " in compared.out
    assert "did you mean both/s0?" in terminal("evaluate", "both/s00").err


def test_what_an_environment_lacks_to_be_shown_is_said(terminal: Terminal):
    terminal.train("es", "faulty_environments:Good", "--out=run")
    ended = terminal("enjoy", "run", "--trust-code", "--video=film.mp4")
    assert ended.code == 2
    assert "to be shown, faulty_environments:Good takes an argument render_mode" in ended.err


def test_a_policy_that_is_not_there_yet_names_the_one_that_is(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--evaluate-every=0", "--out=run")
    Path("run/policy-best.safetensors").unlink(missing_ok=True)
    ended = terminal("evaluate", "run")
    assert ended.code == 2
    assert "no policy 'best' until its first evaluation" in ended.err
    assert "--policy last is there" in ended.err
