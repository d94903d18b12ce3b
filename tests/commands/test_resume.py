"""Going on: on another machine, from damaged checkpoints, from nothing."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from typed_commands import TINY, Terminal, said_command

import drumline
from drumline.api.run_document import PROMISE, run_document
from drumline.recipes.es import ES
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import SearchLayout


def changed(run: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite config.json as another machine would have written it."""
    path = Path(run) / "config.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def older_numpy(document: dict[str, Any]) -> None:
    document["versions"]["numpy"] = "1.0.0"


def other_processor(document: dict[str, Any]) -> None:
    document["machine"]["processor"] = "Z80"


def other_kernels(document: dict[str, Any]) -> None:
    document["known_answers"]["numpy"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (older_numpy, "numpy 1.0.0 there"),
        (other_processor, "Z80 there"),
        (other_kernels, "other kernels of numpy: a variable such as OPENBLAS_CORETYPE"),
    ],
)
def test_another_machine_is_refused_and_the_flag_takes_the_promise_away(
    terminal: Terminal, change: Callable[[dict[str, Any]], None], said: str
):
    terminal.train("es", "CartPole-v1", "--out=run")
    changed("run", change)
    before = {path: path.read_bytes() for path in Path("run").glob("*.*")}
    refused = terminal("resume", "run", "--total-steps=120", "--pool=inline")
    assert refused.code == 2
    assert said in refused.err
    assert {path: path.read_bytes() for path in Path("run").glob("*.*")} == before
    unverified = terminal("verify", "run", "--pool=inline")
    assert unverified.code == 2
    assert "no promise" in unverified.err
    assert said in unverified.err
    command = f"{said_command(refused.err)} --total-steps=120 --pool=inline --quiet"
    assert command.startswith("drumline resume run --other-machine")
    assert terminal.line(command).code == 0
    promise = json.loads(Path("run/config.json").read_text())["promise"]
    assert promise.startswith("no promise: resumed on another machine")
    assert said in promise
    assert Path("run/card.md").read_text().startswith(promise)
    for words in (["run"], ["run", "run"]):
        verified = terminal("verify", *words)
        assert verified.code == 2
        assert promise in verified.err
    # There is no promise left to protect.
    assert terminal("resume", "run", "--total-steps=180", "--pool=inline").code == 0


def test_what_does_not_compute_in_a_run_may_differ(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")

    def change(document: dict[str, Any]) -> None:
        for name in ("torch", "mujoco", "envpool"):
            document["versions"][name] = "0.1"
        document["versions"]["python"] += "9"

    changed("run", change)
    assert terminal("resume", "run", "--total-steps=120", "--pool=inline").code == 0


def test_a_run_without_the_list_of_what_computes_is_compared_in_everything(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")

    def change(document: dict[str, Any]) -> None:
        del document["computed_by"]
        document["versions"]["torch"] = "0.1"

    changed("run", change)
    assert "torch 0.1 there" in terminal("resume", "run").err


def damaged(run: str, damage: Callable[[bytes], bytes]) -> None:
    newest = max(Path(run, "checkpoints").iterdir(), key=lambda place: int(place.name))
    tensors = newest / "state.safetensors"
    tensors.write_bytes(damage(tensors.read_bytes()))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: data[:-1] + bytes([data[-1] ^ 1])],
    ids=["truncated", "bit-flipped"],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_offered_as_a_command(
    terminal: Terminal, damage: Callable[[bytes], bytes]
):
    terminal.train("es", "CartPole-v1", "--total-steps=200", "--out=a run")
    whole = Path("a run/fingerprints.csv").read_bytes()
    damaged("a run", damage)
    refused = terminal("resume", "a run")
    assert refused.code == 2
    assert "is damaged" in refused.err
    assert Path("a run/fingerprints.csv").read_bytes() == whole
    command = said_command(refused.err)
    assert command.startswith("drumline resume 'a run' --checkpoint ")
    assert terminal.line(f"{command} --pool=inline --quiet").code == 0
    assert Path("a run/fingerprints.csv").read_bytes() == whole


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_with_the_same_bits(
    terminal: Terminal,
):
    terminal.train("es", "CartPole-v1", "--out=whole")
    fields = json.loads(Path("whole/config.json").read_text())["config"]
    config = ES(**{**fields, "hidden": tuple(fields["hidden"])})
    document = run_document(config, SearchLayout(), PROMISE)
    RunFolder.create(Path("run"), method="es", env_id=config.env, seed=0, document=document)
    assert terminal("resume", "run", "--pool=inline", "--quiet").code == 0
    for name in ("fingerprints.csv", "episodes.csv", "evaluations.csv"):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()


def test_rows_without_any_checkpoint_are_not_thrown_away(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    for place in sorted(Path("run/checkpoints").glob("*/*")):
        place.unlink()
    for place in Path("run/checkpoints").iterdir():
        place.rmdir()
    rows = Path("run/metrics.csv").read_bytes()
    refused = terminal("resume", "run")
    assert refused.code == 2
    assert "no checkpoint" in refused.err
    assert Path("run/metrics.csv").read_bytes() == rows


def test_the_config_of_a_resumed_run_can_be_printed_without_going_on(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    before = Path("run/config.json").read_bytes()
    printed = terminal("resume", "run", "--total-steps=500", "--print-config")
    assert json.loads(printed.out)["total_steps"] == 500
    assert json.loads(printed.out)["population_size"] == 4
    assert Path("run/config.json").read_bytes() == before


def test_printing_a_config_imports_no_code_that_a_run_folder_names(terminal: Terminal):
    words = ["--num-envs=2", "--alpha=4", "--minibatches=1", "--total-steps=16", "--out=run"]
    terminal("train", "hts", "CartPole-v1", *words, "--evaluate-episodes=1", "--pool=inline")
    changed("run", lambda document: document["config"].update(env="nowhere:Env"))
    printed = terminal("resume", "run", "--print-config")
    assert printed.code == 0, printed.err
    assert json.loads(printed.out)["env"] == "nowhere:Env"


def test_a_total_that_cannot_be_is_refused_before_anything_is_written(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    before = Path("run/config.json").read_bytes()
    assert terminal("resume", "run", "--total-steps=-1").code == 2
    assert Path("run/config.json").read_bytes() == before


def test_a_total_below_what_is_done_is_refused_before_anything_is_written(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    assert terminal("resume", "run", "--total-steps=900", "--pool=inline").code == 0
    before = Path("run/config.json").read_bytes()
    refused = terminal("resume", "run", "--total-steps=120")
    assert refused.code == 2
    assert "env steps already, and --total-steps is 120" in refused.err
    assert Path("run/config.json").read_bytes() == before
    assert terminal("resume", "run", "--total-steps=900", "--pool=inline").code == 0


def test_resume_takes_the_flags_of_the_layout_and_the_display(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    words = ["--workers=1", "--pool=inline", "--checkpoint-minutes=5", "--no-tensorboard", "--json"]
    ended = terminal("resume", "run", "--total-steps=120", *words)
    assert ended.code == 0
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["update"] for row in rows if row["event"] == "update"]
    assert terminal("resume", "run", "--total-steps=180", "--quiet", "--pool=inline").out == ""


def test_the_card_of_a_resumed_run_knows_the_best_evaluation_before_the_stop(terminal: Terminal):
    evaluated = ("--evaluate-every=1", "--learning-rate=1e-9", "--seed=1")
    terminal.train("es", "CartPole-v1", "--out=run", *evaluated)
    stopped_at = max(row.env_steps for row in read_evaluations(Path("run/evaluations.csv")))
    assert terminal("resume", "run", "--total-steps=400", "--pool=inline", "--quiet").code == 0
    rows = read_evaluations(Path("run/evaluations.csv"))
    best = max(rows, key=lambda row: row.mean)
    assert best.env_steps <= stopped_at < rows[-1].env_steps
    said = f"mean return {best.mean:.6g} over 2 episodes, at update {best.update}"
    assert said in Path("run/card.md").read_text()


# With 11 and 17 the shorter run's end is best.
@pytest.mark.parametrize("seed", cases([11, 17, 1], quick=[11]))
def test_the_best_policy_of_a_longer_run_is_that_of_one_of_its_evaluations(
    terminal: Terminal, seed: int
):
    own = [*TINY, "--std=0.3", "--learning-rate=0.1", "--evaluate-every=4", f"--seed={seed}"]
    words = ["train", "es", "CartPole-v1", *own, "--evaluate-episodes=1", "--quiet"]
    assert terminal(*words, "--total-steps=240", "--out=run").code == 0
    assert terminal(*words, "--total-steps=320", "--out=whole").code == 0
    longer = ["--total-steps=320", "--pool=inline", "--quiet"]
    assert terminal("resume", "run", *longer).code == 0
    best = json.loads(Path("run/policy-best.json").read_text())
    rows = read_evaluations(Path("run/evaluations.csv"))
    assert best["evaluation_mean"] == max(row.mean for row in rows)
    for name in ("policy-best.json", "policy-best.safetensors"):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()


PPO = ["--num-envs=2", "--alpha=8", "--epochs=1", "--minibatches=2", "--hidden", "4"]


SCHEDULES = [
    ["--anneal"],
    ["--no-anneal", "--entropy-coefficient=0.1", "--final-entropy-coefficient=0"],
    ["--no-anneal", "--learning-rate=0.03", "--epochs=8", "--anneal-clip"],
]


@pytest.mark.parametrize(
    "schedule", cases(SCHEDULES, quick=SCHEDULES[:1]), ids=lambda flags: flags[-1]
)
def test_a_run_that_was_made_longer_twice_is_verified_as_it_was_made(
    terminal: Terminal, schedule: list[str]
):
    short = [
        *schedule,
        "--total-steps=64",
        "--evaluate-episodes=1",
        "--pool=inline",
        "--quiet",
        "--out=run",
    ]
    assert terminal("train", "ppo", "CartPole-v1", *PPO, *short).code == 0
    longer = ["resume", "run", "--pool=inline", "--quiet"]
    assert terminal(*longer, "--total-steps=128").code == 0
    assert terminal(*longer, "--total-steps=192").code == 0
    assert horizons() == [[0, 64], [4, 128], [8, 192]]
    for updates in ("2", "6", "all"):
        verified = terminal("verify", "run", "--pool=inline", f"--updates={updates}")
        assert verified.code == 0, verified.out + verified.err
        done = 12 if updates == "all" else int(updates)
        assert verified.out.startswith(f"equal: {done} updates repeated")
    assert terminal(*longer, "--total-steps=96", "--checkpoint=4").code == 0
    assert horizons() == [[0, 64], [4, 96]]
    assert terminal("verify", "run", "--pool=inline", "--updates=all").code == 0
    changed("run", lambda document: document["horizons"][1].__setitem__(1, 97))
    assert terminal("verify", "run", "--pool=inline", "--updates=all").code == 1


def test_a_handle_that_was_opened_earlier_overwrites_nothing_of_a_later_resume(terminal: Terminal):
    small = {"num_envs": 2, "alpha": 8, "epochs": 1, "minibatches": 2, "hidden": (4,)}
    small |= {"total_steps": 64, "evaluate_episodes": 1}
    config = drumline.configure("ppo", "CartPole-v1", preset=None, **small)
    run = drumline.train(config, workers="inline", out="run")
    drumline.load("run").resume(workers="inline", total_steps=128)
    run.resume(workers="inline", total_steps=192)
    assert horizons() == [[0, 64], [4, 128], [8, 192]]
    assert run.config.total_steps == 192
    assert terminal("verify", "run", "--pool=inline", "--updates=all").code == 0


def horizons() -> list[list[int]]:
    return json.loads(Path("run/config.json").read_text())["horizons"]


def test_a_resume_that_is_refused_changes_no_config(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    before = Path("run/config.json").read_bytes()
    claim = os.open("run", os.O_RDONLY)
    fcntl.flock(claim, fcntl.LOCK_EX)
    try:
        refused = terminal("resume", "run", "--total-steps=999", "--pool=inline")
    finally:
        os.close(claim)
    assert refused.code == 2
    assert "another process" in refused.err
    assert Path("run/config.json").read_bytes() == before


def test_a_refused_resume_keeps_the_folder_of_a_run_without_a_checkpoint(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    terminal.train("es", "CartPole-v1", "--out=straight")
    Path("run").mkdir()
    Path("run/config.json").write_bytes(Path("straight/config.json").read_bytes())

    def refused(*_: object) -> None:
        raise ValueError("not today")

    words = ("resume", "run", "--pool=inline", "--no-tensorboard", "--quiet")
    with monkeypatch.context() as patch:
        patch.setattr("drumline.training.generational_run.GenerationalRun.run", refused)
        ended = terminal(*words)
        assert (ended.code, ended.err) == (2, "drumline: not today\n")
    assert terminal(*words).code == 0
    chains = [Path(run, "fingerprints.csv").read_bytes() for run in ("run", "straight")]
    assert chains[0] == chains[1]


def test_an_engine_that_is_installed_later_changes_no_run(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    words = [*PPO, "--evaluate-episodes=2", "--pool=inline"]
    with monkeypatch.context() as without:
        without.setattr("drumline.envs.make._envpool_ids", lambda: None)
        terminal("train", "hts", "CartPole-v1", "--total-steps=64", *words, "--out=run")
    assert json.loads(Path("run/config.json").read_text())["config"]["engine"] == "gymnasium"
    assert terminal("resume", "run", "--total-steps=128", "--pool=inline").code == 0
    assert terminal("verify", "run", "--pool=inline").code == 0


def test_another_machines_findings_are_made_anew_without_the_promise(terminal: Terminal):
    small = ["--num-envs=2", "--alpha=8", "--total-steps=32", "--engine=gymnasium"]
    flags = [*small, "--evaluate-episodes=1", "--pool=inline", "--quiet"]
    assert terminal("train", "ppo", "CartPole-v1", *flags, "--out=run").code == 0

    def moved(document: dict[str, Any]) -> None:
        document["machine"]["processor"] = "another"
        document["config"]["inference_rows"] = 8

    changed("run", moved)
    more = ["--total-steps=64", "--pool=inline", "--quiet"]
    assert terminal("resume", "run", *more).code == 2
    ended = terminal("resume", "run", *more, "--other-machine")
    assert ended.code == 0, ended.err
    assert terminal("resume", "run", "--total-steps=96", *more[1:]).code == 0
