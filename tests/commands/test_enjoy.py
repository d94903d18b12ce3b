"""Showing a policy: a window where there is a display, a film elsewhere."""

import os
from pathlib import Path

import pytest
from typed_commands import TINY, Terminal

from drumline.api.evaluation import draws_actions, longest_episode
from drumline.envs import make


def test_without_a_display_a_film_is_written_into_the_run_folder(terminal: Terminal):
    terminal.train("es", "impure_environment:Drawn", "--out=run")
    shown = terminal("enjoy", "run", "--trust-code", "--episodes=2", "--sample")
    assert shown.code == 0, shown.err
    assert "run/episode.mp4" in shown.out
    assert "10 env steps" in shown.out
    assert Path("run/episode.mp4").stat().st_size > 0


def test_a_window_is_opened_where_there_is_a_display(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    terminal.train("es", "impure_environment:Drawn", "--out=run")
    monkeypatch.setenv("DISPLAY", ":0")
    shown = terminal("enjoy", "run", "--trust-code")
    assert shown.code == 0, shown.err
    assert "a window shows step 5" in shown.out
    assert not Path("run/episode.mp4").exists()
    filmed = terminal("enjoy", "run", "--trust-code", "--video=film.mp4")
    assert "a window" not in filmed.out
    assert Path("film.mp4").stat().st_size > 0


def test_a_film_is_not_written_over_a_file_with_a_second_name(terminal: Terminal):
    terminal.train("es", "impure_environment:Drawn", "--out=run")
    Path("theirs").write_bytes(b"mine")
    os.link("theirs", "run/episode.mp4")
    ended = terminal("enjoy", "run", "--trust-code")
    assert ended.code == 2
    assert "episode.mp4 has 2 names" in ended.err
    assert Path("theirs").read_bytes() == b"mine"


def test_a_window_without_a_display_is_refused_with_the_flag_to_use(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    refused = terminal("enjoy", "run", "--window")
    assert refused.code == 2
    assert "--video" in refused.err


def test_what_is_shown_is_the_first_episode_of_evaluate(terminal: Terminal):
    terminal.train("es", "impure_environment:Drawn", "--out=run")
    evaluated = terminal("evaluate", "run", "--trust-code", "--episodes=1", "--seed=3").out
    shown = terminal("enjoy", "run", "--trust-code", "--seed=3").out
    assert evaluated.strip() in shown


def test_gymnasium_draws_for_envpool(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--engine=envpool", "--out=run")
    shown = terminal("enjoy", "run", "--max-steps=5")
    assert shown.code == 0, shown.err
    assert "this is Gymnasium's CartPole-v1" in shown.out


def test_a_game_of_envpools_is_drawn_by_ale(terminal: Terminal):
    pytest.importorskip("ale_py", reason="the extra `atari` is not installed")
    terminal.train(
        *("es", "Freeway-v5", "--population-size=2", "--noise=counter", "--out=run"),
        *("--max-episode-steps=100", "--total-steps=200", "--evaluate-episodes=1"),
    )
    shown = terminal("enjoy", "run", "--max-steps=5")
    assert shown.code == 0, shown.err
    assert "this is Gymnasium's ALE/Freeway-v5" in shown.out


def test_an_environment_that_gymnasium_lacks_or_has_otherwise_is_not_drawn(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    words = ["es", "CartPole-v1", *TINY, "--engine=envpool", "--out=run", "--quiet"]
    assert terminal("train", *words).code == 0
    original = make.make_environment

    def other(spec: make.EnvironmentSpec, render_mode: str | None = None) -> make.MadeEnvironment:
        if spec.engine == "gymnasium":
            return original(make.EnvironmentSpec("Pendulum-v1"), render_mode)
        return original(spec, render_mode)

    monkeypatch.setattr(make, "make_environment", other)
    refused = terminal("enjoy", "run")
    assert refused.code == 2
    assert "(3,) instead of (4,)" in refused.err

    def none(spec: make.EnvironmentSpec, render_mode: str | None = None) -> make.MadeEnvironment:
        if spec.engine == "gymnasium":
            raise make.EnvironmentProblem("unknown")
        return original(spec, render_mode)

    monkeypatch.setattr(make, "make_environment", none)
    assert "Gymnasium has no CartPole-v1" in terminal("enjoy", "run").err


def test_episodes_are_chosen_and_bounded_as_the_runs_own_evaluations(terminal: Terminal):
    flags = ["--num-envs=2", "--alpha=8", "--minibatches=1", "--total-steps=32", "--hidden", "4"]
    evaluations = ["--evaluate-sample", "--evaluate-max-steps=6", "--evaluate-episodes=2"]
    words = ["ppo", "CartPole-v1", "--engine=gymnasium", *flags, *evaluations, "--quiet"]
    assert terminal("train", *words, "--out=run").code == 0
    evaluated = terminal("evaluate", "run", "--episodes=1").out.splitlines()[0]
    assert evaluated == "return 6.0, 1 episode"
    shown = terminal("enjoy", "run", "--max-steps=500")
    assert shown.code == 0, shown.err
    assert f"{evaluated}, 6 env steps" in shown.out


@pytest.mark.parametrize("typed", [(), ("--deterministic",), ("--sample",)])
def test_actions_are_drawn_as_typed_or_as_in_the_run(typed: tuple[str, ...]):
    config = {"evaluate_sample": True, "evaluate_max_steps": 40}
    flags = {"sample": "--sample" in typed, "deterministic": "--deterministic" in typed}
    assert draws_actions(config, **flags) is (typed != ("--deterministic",))
    assert draws_actions({}, **flags) is (typed == ("--sample",))
    assert longest_episode(config, 0, 100) == 40
    assert longest_episode(config, 30) == 30
    assert longest_episode({}, 0) == 0


def test_a_grid_is_a_film_even_where_there_is_a_display(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    terminal.train("es", "impure_environment:Drawn", "--out=run")
    monkeypatch.setenv("DISPLAY", ":0")
    shown = terminal("enjoy", "run", "--trust-code", "--episodes=3", "--grid", "--video=four.gif")
    assert shown.code == 0, shown.err
    assert Path("four.gif").stat().st_size > 0
    refused = terminal("enjoy", "run", "--trust-code", "--grid", "--window")
    assert refused.code == 2
    assert "--grid makes a film" in refused.err
