"""`drumline verify` on what a kill or a full disk has left of a run."""

import shutil
from pathlib import Path

import pytest
from typed_commands import Terminal

import drumline
from drumline.api.foreign_code import TRUSTED
from drumline.api.run import Run
from drumline.commands.verify import verify_again
from drumline.display.run_data import last_returns, read_run
from drumline.runs.folder import RunError
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import SearchLayout

INLINE = SearchLayout(pool="inline", tensorboard=False)
CONFIG = drumline.ES(
    env="impure_environment:Counting",
    total_steps=100,
    population_size=4,
    noise_table_size=4_096,
    hidden=(4,),
    evaluate_every=1,
    evaluate_episodes=2,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return drumline.train(CONFIG, workers="inline", out=tmp_path_factory.mktemp("whole") / "run")


def torn(whole: Run, place: Path, name: str, left: int) -> Run:
    """Return a copy that has only the first `left` bytes of the last row of a file."""
    shutil.copytree(whole.path, place)
    lines = (place / name).read_bytes().splitlines(keepends=True)
    (place / name).write_bytes(b"".join(lines[:-1]) + lines[-1][:left])
    return drumline.load(place)


@pytest.mark.parametrize("flag", ["--updates=2", "--workers=1", "--pool=inline", "--nodes=2"])
def test_flags_of_a_repetition_are_refused_where_two_runs_are_compared(
    terminal: Terminal, whole: Run, flag: str
):
    refused = terminal("verify", str(whole.path), str(whole.path), flag)
    assert refused.code == 2
    assert f"{flag.split('=')[0]} is of a repetition" in refused.err
    assert terminal("verify", str(whole.path), str(whole.path)).code == 0


def test_a_method_that_trains_in_one_process_is_not_said_to_train_on_workers(terminal: Terminal):
    config = drumline.TD3(
        env="CartPole-v1",
        total_steps=60,
        steps_per_update=20,
        random_steps=20,
        batch_size=8,
        hidden=(4,),
        evaluate_episodes=1,
    )
    drumline.train(config, workers="inline", out=Path("run"))
    words = "3 updates repeated in one process"
    ended = terminal("verify", "run", "--workers=1")
    assert ended.out == f"equal: {words}\n", ended.err
    assert terminal("report", "run", "--verify=3").code == 0
    assert f"{words}: the same bits" in Path("report.html").read_text()


@pytest.mark.parametrize("left", [1, 3, 40, -1])
def test_half_a_row_does_not_count(tmp_path: Path, whole: Run, left: int):
    run = torn(whole, tmp_path / "metrics", "metrics.csv", left)
    assert run.metrics == whole.metrics[:-1]
    assert len(read_run(run.path).env_steps) == len(whole.metrics) - 1
    run = torn(whole, tmp_path / "evaluations", "evaluations.csv", left)
    rows = read_evaluations(whole.folder.evaluations_csv)[:-1]
    assert read_evaluations(run.folder.evaluations_csv) == rows
    assert last_returns(run.path) == list(rows[-1].returns)


@pytest.mark.parametrize("name", ["metrics.csv", "fingerprints.csv"])
def test_what_is_whole_is_verified(tmp_path: Path, whole: Run, name: str):
    run = torn(whole, tmp_path / "run", name, 5)
    assert verify_again(run.folder, None, INLINE, TRUSTED) == (len(whole.metrics) - 1, None)


def test_a_run_without_a_whole_fingerprint_does_not_differ_from_itself(tmp_path: Path, whole: Run):
    run = torn(whole, tmp_path / "run", "fingerprints.csv", 0)
    run.folder.fingerprints_csv.write_text("update,par")
    with pytest.raises(RunError, match="has no updates to verify"):
        verify_again(run.folder, None, INLINE, TRUSTED)
