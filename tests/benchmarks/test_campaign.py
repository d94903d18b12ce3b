"""A campaign trains what its queue lists, through kills and pauses, and fills its tables."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import doubles
import numpy as np
import pytest
from benchmark_scripts import load_script

from drumline import cli

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def campaign() -> Any:
    """The modules of a campaign, imported as its script imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE / "benchmarks"))
        patch.syspath_prepend(str(HERE / "benchmarks" / "learning"))
        yield load_script("", "campaign")


def queue_of(campaign: Any, path: Path, *groups: str) -> Any:
    path.write_text("\n".join(f"[[group]]\n{group}" for group in groups))
    return campaign.read_queue(path)


TINY = """
name = "tiny"
part = "small"
method = "es"
env = "CartPole-v1"
seeds = [3, 4]
hours = 0.5
flags = ["--population-size=2", "--total-steps=200", "--hidden", "2", "--evaluate-every=1",
    "--noise-table-size=4096", "--evaluate-episodes=2", "--pool=inline", "--no-tensorboard"]
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = [3, 4]", ""), "group tiny lacks 'seeds'"),
        (("hours = 0.5", 'hours = "long"'), "group tiny: hours must be a float, got 'long'"),
        (("hours", "ours = 1\nhours"), "group tiny has an unknown key 'ours'"),
        (("[3, 4]", "[3, 4"), "cannot be read"),
    ],
)
def test_a_bad_queue_is_refused_in_one_sentence(
    campaign: Any, tmp_path: Path, change: tuple[str, str], message: str
):
    with pytest.raises(campaign.BadQueue, match=message):
        queue_of(campaign, tmp_path / "queue.toml", TINY.replace(*change))
    with pytest.raises(campaign.BadQueue, match="two groups named tiny"):
        queue_of(campaign, tmp_path / "queue.toml", TINY, TINY)


def test_groups_of_one_priority_take_turns_and_lower_numbers_go_first(
    campaign: Any, tmp_path: Path
):
    groups = queue_of(
        campaign,
        tmp_path / "queue.toml",
        TINY,
        TINY.replace('"tiny"', '"other"'),
        TINY.replace('"tiny"', '"first"') + "priority = 1\n",
    )
    names = [run.name for run in campaign.in_order(groups)]
    assert names == ["first-s3", "first-s4", "tiny-s3", "other-s3", "tiny-s4", "other-s4"]


def test_a_queue_can_have_another_budget(campaign: Any, tmp_path: Path):
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    (longer,) = campaign.at_budget_of([group], 3_000_000)
    budgets = [flag for flag in longer.flags if flag.startswith("--total-steps")]
    before = next(flag for flag in group.flags if flag.startswith("--total-steps"))
    assert budgets == ["--total-steps=3000000"]
    assert longer.hours == group.hours * 3_000_000 / int(before.partition("=")[2])
    assert len(longer.flags) == len(group.flags)


def test_a_run_has_one_core_unless_its_group_names_its_workers(campaign: Any):
    layout = import_module("campaign_work").layout
    assert "--pool=inline" in layout("aes", ("--total-steps=9",))
    assert "--workers=1" in layout("es")
    assert not [f for f in layout("aes", ("--workers=2",)) if f.startswith(("--pool", "--workers"))]


class Here:
    """A checkout: the sources under test, in this environment."""

    def __init__(self) -> None:
        self.sources = Path("abc123")
        self.environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}

    def drumline(self, *words: str) -> list[str]:
        """Return a command of these sources."""
        return [sys.executable, "-m", "drumline", *words]


def worker(campaign: Any, home: Any, groups: Any, tables: Any, jobs: int = 2) -> Any:
    def ended(run: Any, checkout: Any) -> None:
        campaign.record(tables, run, home.folder(run), checkout, 1.0)

    return worker_of(campaign, home, campaign.in_order(groups), Here, ended, jobs=jobs)


def worker_of(
    campaign: Any, home: Any, runs: Any, checkout: Any, ended: Any = print, jobs: int = 1
) -> Any:
    return campaign.Worker(
        home, lambda: runs, jobs, lambda _: checkout(), "abc123", ended, retry_seconds=0.05
    )


def settled(campaign: Any) -> None:
    """Give this process its own handlers back."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_queue_is_worked_off_and_its_rows_are_those_of_the_run_folders(
    campaign: Any, tmp_path: Path
):
    groups = queue_of(
        campaign,
        tmp_path / "queue.toml",
        TINY,
        TINY.replace('"tiny"', '"bad"').replace("--hidden", "--hiden").replace("[3, 4]", "[3]"),
    )
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    assert campaign.hours_left(home, groups[0]) == 1.0
    # A table of before has rows of other runs, and fewer columns.
    tables.evaluations.write_text("group,seed,env_steps,mean\na,1,10,2.5\n")
    worker(campaign, home, groups, tables).work(poll_seconds=0.05)
    settled(campaign)
    states = {run.name: home.state(run) for run in campaign.in_order(groups)}
    assert states == {"tiny-s3": "done", "tiny-s4": "done", "bad-s3": "failed"}
    assert "--hiden" in home.log(campaign.Run(groups[1], 3)).read_text()
    home.forget_failures(campaign.in_order(groups))
    assert home.state(campaign.Run(groups[1], 3)) == "not begun"
    home.write_note(campaign.Run(groups[1], 3), failures=3)
    older, *newer = campaign.read_rows(tables.evaluations)
    assert (older["mean"], older["wall_seconds"]) == ("2.5", "")
    assert all(float(row["wall_seconds"]) > 0.0 for row in newer)
    rows = campaign.read_rows(tables.runs)
    assert [(row["group"], row["seed"]) for row in rows] == [("tiny", "3"), ("tiny", "4")]
    for row in rows:
        folder = home.path / "runs" / f"tiny-s{row['seed']}"
        last = (folder / "evaluations.csv").read_text().splitlines()[-1].split(",")
        assert float(row["final_mean"]) == pytest.approx(float(last[3]), rel=1e-5)
        assert row["command"].startswith("drumline train es CartPole-v1 --seed=")
        assert row["commit"] == "abc123"
    assert campaign.hours_left(home, groups[0]) == 0.0
    before = tables.evaluations.read_bytes()
    worker(campaign, home, groups, tables).work(poll_seconds=0.05)
    settled(campaign)
    assert tables.evaluations.read_bytes() == before
    assert campaign.status(home, groups)[:2] == ["tiny: 2 done", "bad: 1 failed"]


def test_a_new_home_repeats_no_run_that_has_a_row_of_the_same_command(
    campaign: Any, tmp_path: Path
):
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    home = campaign.Home(tmp_path / "home")
    first, second = (campaign.Run(group, seed) for seed in group.seeds)
    row = {"group": "tiny", "commit": "abc123", "seconds_beside_other_runs": "7200"}
    rows = [
        {**row, "seed": "3", "command": " ".join(["drumline train", *first.command()])},
        {**row, "seed": "4", "command": "drumline train es CartPole-v1 --seed=4 --std=0.5"},
    ]
    campaign.adopt(home, [group], rows)
    assert (home.state(first), home.state(second)) == ("done", "not begun")
    assert campaign.hours_left(home, group) == 2.0


@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_whose_flags_have_changed_begins_again(campaign: Any, tmp_path: Path, recorded: bool):
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    one_seed = TINY.replace("[3, 4]", "[3]")
    (before,) = queue_of(campaign, tmp_path / "queue.toml", one_seed)
    worker(campaign, home, [before], tables).work(poll_seconds=0.05)
    run = campaign.Run(before, 3)
    if not recorded:  # as where it was paused, or the worker killed, before its row was made
        home.write_note(run, recorded=False)
        tables.runs.unlink()
        assert home.state(run) == "begun"
    (after,) = queue_of(
        campaign, tmp_path / "queue.toml", one_seed.replace("steps=200", "steps=400")
    )
    changed = campaign.Run(after, 3)
    assert home.state(changed) == "not begun"
    worker(campaign, home, [after], tables).work(poll_seconds=0.05)
    settled(campaign)
    (row,) = campaign.read_rows(tables.runs)
    assert int(row["env_steps"]) >= 400
    assert "--total-steps=400" in row["command"]


def test_a_process_of_a_number_that_another_one_had_is_no_run(campaign: Any, tmp_path: Path):
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    home, run = campaign.Home(tmp_path / "home"), campaign.Run(group, 3)
    started = import_module("campaign_queue").started_at(os.getpid())
    home.write_note(run, process=os.getpid(), started=started)
    assert home.state(run) == "running"
    home.write_note(run, started=started - 1)
    assert home.state(run) == "not begun"


def test_runs_of_a_worker_that_was_killed_count_and_are_recorded(campaign: Any, tmp_path: Path):
    """The run of a killed worker goes on: no other one begins beside it, and it gets its row."""
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    first, second = (campaign.Run(group, seed) for seed in group.seeds)
    beside = subprocess.Popen(
        Here().drumline("train", *first.command(), "--quiet", f"--out={home.folder(first)}"),
        env=Here().environment,
    )
    started = import_module("campaign_queue").started_at(beside.pid)
    home.write_note(first, commit="abc123", process=beside.pid, started=started)
    reaping = Thread(target=beside.wait)  # as the system does for a process without a parent
    reaping.start()
    worker(campaign, home, [group], tables, jobs=1).work(poll_seconds=0.05)
    settled(campaign)
    reaping.join()
    assert (home.state(first), home.state(second)) == ("done", "done")
    assert home.read_note(first)["seconds"] > 0
    assert campaign.status(home, [group])[0] == "tiny: 2 done"
    began = [(home.folder(run) / "config.json").stat().st_mtime for run in (first, second)]
    assert (home.folder(first) / "policy-last.json").stat().st_mtime <= began[1]


def test_a_row_that_cannot_be_written_is_tried_again_and_stops_no_other_run(
    campaign: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    home, asked = campaign.Home(tmp_path / "home"), list[Any]()

    def ended(run: Any, checkout: Any) -> None:
        asked.append(run)
        if len(asked) == 1:
            raise campaign.BadQueue("half saved")

    runs = campaign.in_order([group])
    patient = campaign.Worker(
        home, lambda: runs, 1, lambda _: Here(), "abc123", ended, retry_seconds=0.2
    )
    patient.work(poll_seconds=0.05)
    settled(campaign)
    first, second = runs
    assert sorted(run.seed for run in asked) == [3, 3, 4]
    assert (home.state(first), home.state(second)) == ("done", "done")
    assert "BadQueue: half saved" in capsys.readouterr().err


def test_a_run_under_its_former_flags_is_left_to_its_end(campaign: Any, tmp_path: Path):
    """The worker that began it was killed, and the queue's flags have changed since."""
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    one_seed = TINY.replace("[3, 4]", "[3]")
    (before,) = queue_of(campaign, tmp_path / "queue.toml", one_seed)
    changed = one_seed.replace("steps=200", "steps=400")
    (after,) = queue_of(campaign, tmp_path / "queue.toml", changed)
    old, new = campaign.Run(before, 3), campaign.Run(after, 3)
    folder = home.folder(old)
    folder.mkdir(parents=True)
    writes = "import pathlib, sys, time; time.sleep(2); pathlib.Path(sys.argv[1]).write_text('end')"
    beside = subprocess.Popen([sys.executable, "-c", writes, str(tmp_path / "told")])
    started = import_module("campaign_queue").started_at(beside.pid)
    home.write_note(old, commit="abc123", process=beside.pid, started=started)
    assert home.state(new) == "running"
    reaping = Thread(target=beside.wait)
    reaping.start()
    worker(campaign, home, [after], tables, jobs=1).work(poll_seconds=0.05)
    settled(campaign)
    reaping.join()
    assert (tmp_path / "told").stat().st_mtime <= (home.folder(new) / "config.json").stat().st_mtime
    (row,) = campaign.read_rows(tables.runs)
    assert "--total-steps=400" in row["command"]


def repository(path: Path, **files: str) -> str:
    """Make a repository with one commit; return the commit."""
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    git = ["git", "-C", str(path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True)
    return head.stdout.decode().strip()


def test_a_checkout_that_a_kill_has_cut_off_is_made_anew(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(campaign.Checkout, "_install", lambda *_: None)
    tree = tmp_path / "tree"
    commit = repository(tree, **{"pyproject.toml": "[project]", "constraints.txt": "", "b": "c"})
    home = campaign.Home(tmp_path / "home")
    sources = home.path / "checkouts" / commit
    for leftover in (sources.with_name(f"{commit}.partial"), sources):
        (leftover / ".git").mkdir(parents=True)
    assert campaign.Checkout(home, tree, commit).sources == sources
    assert (sources / "b").read_text() == "c"
    assert [path.name for path in sources.parent.iterdir()] == [commit]


def test_a_page_that_is_being_edited_is_in_no_commit_of_rows(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tree = tmp_path / "tree"
    page = "words\n<!-- begin a -->\n{}\n<!-- end a -->\n"
    repository(tree, **{"README.md": page.format(1), "results.md": page.format(1), "runs.csv": "a"})
    tables = campaign.Tables.beside(tree)
    tables.runs.write_text("group\n")
    for name, value in {
        "TREE": tree,
        "README": tree / "README.md",
        "RESULTS": tree / "results.md",
        "TUNING": tree / "tuning.md",
        "TABLES": tables,
    }.items():
        monkeypatch.setattr(campaign, name, value)
    for name in ("USER", "AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b.c")
    (tree / "README.md").write_text("half a sen" + page.format(2))
    (tree / "results.md").write_text(page.format(2))
    campaign._commit("Add a row", ())
    shown = subprocess.run(
        ["git", "-C", str(tree), "show", "--name-only", "--format=%s"],
        check=True,
        capture_output=True,
    )
    assert shown.stdout.decode().split("\n\n")[0] == "Add a row"
    assert set(shown.stdout.decode().split()[3:]) == {tables.runs.name, "results.md"}
    assert (tree / "README.md").read_text().startswith("half a sen")


def test_a_worker_that_stops_is_waited_for_and_another_goes_on(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, queue = campaign.Home(tmp_path / "home"), tmp_path / "queue.toml"
    home.path.mkdir()
    queue_of(campaign, queue, TINY)
    sleeps = [sys.executable, "-c", "import time; time.sleep(1.5)", str(queue.resolve()), "work"]
    stopping = subprocess.Popen(sleeps)
    home.process_id.write_text(str(stopping.pid))
    home.paused.touch()
    begun: list[bool] = []

    def in_background(words: Any, log: Path) -> Any:
        begun.append(stopping.poll() is not None)
        return stopping

    monkeypatch.setattr(campaign, "in_background", in_background)
    reaping = Thread(target=stopping.wait)
    reaping.start()
    monkeypatch.setattr(sys, "argv", ["campaign.py", str(queue), "go", f"--home={home.path}"])
    assert campaign.main() == 0
    reaping.join()
    assert begun == [True]
    assert not home.paused.exists()


def test_a_kill_within_a_write_leaves_the_former_table(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table, provenance = tmp_path / "runs.csv", import_module("provenance")
    provenance.write_table(table, [{"group": "a", "seed": 1}])
    before = table.read_bytes()

    def killed(_: int) -> None:
        raise SystemExit

    monkeypatch.setattr(provenance.os, "fsync", killed)
    with pytest.raises(SystemExit):
        provenance.write_table(table, [{"group": "a", "seed": 1}, {"group": "b", "seed": 2}])
    assert table.read_bytes() == before


def test_a_home_has_one_queue_at_a_time(
    campaign: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    home = tmp_path / "home"
    home.mkdir()
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)", "/other/queue.toml", "work"]
    process = subprocess.Popen(sleeps)
    try:
        (home / "worker.pid").write_text(str(process.pid))
        (home / "paused").touch()
        queue_of(campaign, tmp_path / "queue.toml", TINY)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                sys, "argv", ["campaign.py", f"{tmp_path}/queue.toml", "go", f"--home={home}"]
            )
            assert campaign.main() == 2
        assert "works off /other/queue.toml there: pause it first" in capsys.readouterr().err
        assert (home / "paused").exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.faults
def test_a_paused_campaign_goes_on_where_its_runs_were_stopped(campaign: Any, tmp_path: Path):
    longer = TINY.replace("total-steps=200", "total-steps=60000").replace("every=1", "every=0")
    (group,) = queue_of(campaign, tmp_path / "queue.toml", longer.replace("[3, 4]", "[3]"))
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    run = campaign.Run(group, 3)

    def pause_once_it_runs() -> None:
        ends = time.perf_counter() + 120
        while home.env_steps(run)[0] < 500 and time.perf_counter() < ends:
            time.sleep(0.05)
        home.paused.touch()

    pausing = Thread(target=pause_once_it_runs)
    pausing.start()
    worker(campaign, home, [group], tables).work(poll_seconds=0.05)
    pausing.join()
    settled(campaign)
    assert home.state(run) == "begun"
    assert 500 <= home.env_steps(run)[0] < 60_000
    home.paused.unlink()
    worker(campaign, home, [group], tables).work(poll_seconds=0.05)
    settled(campaign)
    assert home.state(run) == "done"
    assert home.env_steps(run)[0] >= 60_000


def groups_by_session() -> bool:
    show = ["cat", "/proc/self/autogroup"]
    return bool(subprocess.run(show, start_new_session=True, capture_output=True).stdout.strip())


@pytest.mark.skipif(not groups_by_session(), reason="no groups of processes by session here")
def test_the_session_of_a_campaign_has_low_priority(campaign: Any, tmp_path: Path):
    process = campaign.in_background(["sleep", "600"], tmp_path / "log")
    try:
        own, its = (Path(f"/proc/{one}/autogroup").read_text() for one in ("self", process.pid))
        assert own != its
        assert its.split()[1:] == ["nice", "19"]
    finally:
        process.kill()
        process.wait()


STUBBORN = """
import pathlib, signal, sys, time
told = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGINT, lambda *_: told.write_text(told.read_text() + "asked "))
told.write_text("begun ")
while "asked" not in told.read_text():
    time.sleep(0.01)
time.sleep(0.5)
sys.exit(1)
"""


def test_a_run_is_asked_to_stop_once_and_has_not_failed_if_it_then_ends_badly(
    campaign: Any, tmp_path: Path
):
    told = tmp_path / "told"

    class Stubborn(Here):
        def drumline(self, *words: str) -> list[str]:
            return [sys.executable, "-c", STUBBORN, str(told)]

    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY.replace("[3, 4]", "[3]"))
    home, run = campaign.Home(tmp_path / "home"), campaign.Run(group, 3)

    def pause_once_it_runs() -> None:
        doubles.wait_until(lambda: told.exists() and told.read_text() == "begun ")
        home.paused.touch()

    pausing = Thread(target=pause_once_it_runs)
    pausing.start()
    worker_of(campaign, home, campaign.in_order([group]), Stubborn).work(poll_seconds=0.02)
    pausing.join()
    settled(campaign)
    assert told.read_text() == "begun asked "
    assert home.read_note(run)["failures"] == 0


ENDS = """
import os, pathlib, signal, sys
told = pathlib.Path(sys.argv[1])
number = len(told.read_text()) if told.exists() else 0
told.write_text("x" * (number + 1))
if number == 0:
    sys.exit(143)  # as after a SIGTERM that a machine's shutdown sends
if number == 1:
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(1)
"""


def test_a_run_that_others_stop_has_not_failed_and_one_that_cannot_begin_ends_no_worker(
    campaign: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told, refusals = tmp_path / "told", iter([True, False, False])

    class Ending(Here):
        def __init__(self) -> None:
            super().__init__()
            if next(refusals, False):
                raise subprocess.CalledProcessError(1, ["pip"])

        def drumline(self, *words: str) -> list[str]:
            return [sys.executable, "-c", ENDS, str(told)]

    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY.replace("[3, 4]", "[3]"))
    home, run = campaign.Home(tmp_path / "home"), campaign.Run(group, 3)
    worker_of(campaign, home, [run], Ending).work(poll_seconds=0.02)
    settled(campaign)
    assert told.read_text() == "x" * 5  # two that were stopped, and three failures
    assert home.state(run) == "failed"
    assert "tiny-s3 could not begin" in capsys.readouterr().out


def test_a_script_goes_on_at_the_commit_that_its_rows_were_begun_at(campaign: Any, tmp_path: Path):
    scripted = TINY + 'script = "benchmarks/learning/required_time.py"\n'
    (group,) = queue_of(campaign, tmp_path / "queue.toml", scripted.replace("[3, 4]", "[3]"))
    home, run = campaign.Home(tmp_path / "home"), campaign.Run(group, 3)
    folder = home.folder(run)
    folder.mkdir(parents=True)
    home.write_note(run, commit="older")
    assert home.state(run) == "not begun"
    (folder / "rows.csv").write_text("score\n1\n")
    assert home.state(run) == "begun"
    commits: list[str] = []

    class Script(Here):
        def script(self, *words: str) -> list[str]:
            return [sys.executable, "-c", "pass"]

    def checkout(commit: str) -> Script:
        commits.append(commit)
        return Script()

    campaign.Worker(home, lambda: [run], 1, checkout, "newer", print).work(poll_seconds=0.02)
    settled(campaign)
    assert set(commits) == {"older"}
    assert home.state(run) == "done"


def test_a_page_that_is_saved_while_its_tables_are_made_is_not_written_over(
    campaign: Any, tmp_path: Path
):
    page = tmp_path / "page.md"
    page.write_text("old words")

    def filled(text: str) -> str:
        if text == "old words":
            page.write_text("new words")  # an editor saves it now
        return f"{text}, filled"

    campaign._refill(page, filled)
    assert page.read_text() == "new words, filled"


def test_tables_hold_interquartile_means_at_shares_of_the_budget(campaign: Any):
    runs = [
        {"group": "g", "part": "p", "seed": str(seed), "env_steps": "100", "env": "X"}
        for seed in range(4)
    ]
    curves = [
        {"group": "g", "seed": str(seed), "env_steps": str(at), "mean": str(seed * at), "of": ""}
        for seed in range(4)
        for at in (40, 60, 100)
    ]
    text = "before\n<!-- begin p -->\nold\n<!-- end p -->\nafter\n"
    filled = campaign.fill(text, campaign.Rows(runs, curves))
    row = next(line for line in filled.splitlines() if line.startswith("| `g`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["`g`", "0–3", "100"]
    means = [float(cell.split(" ")[0]) for cell in cells[4:]]
    # None is evaluated at a quarter; half and three quarters lie between evaluations.
    assert cells[3] == ""
    assert means == pytest.approx([75.0, 112.5, 150.0], rel=0.01)
    assert "old" not in filled
    assert campaign.fill(filled, campaign.Rows(runs, curves)) == filled
    assert "No run has ended yet." in campaign.fill(text, campaign.Rows([]))


def test_published_scores_are_met_by_the_median_of_the_seeds(campaign: Any):
    swimmer = {"group": "g", "part": "openai-es", "env": "Swimmer-v5", "env_steps": "2000000"}
    runs = [{**swimmer, "seed": str(seed)} for seed in (0, 1, 2)]

    def curves(*reached_at: int) -> list[dict[str, str]]:
        return [
            {
                "group": "g",
                "seed": str(seed),
                "env_steps": str(at),
                "mean": "200" if at >= first else "0",
            }
            for seed, first in enumerate(reached_at)
            for at in range(100_000, 2_000_000, 100_000)
        ]

    text = "<!-- begin openai-es -->\n<!-- end openai-es -->"
    early = campaign.fill(text, campaign.Rows(runs, curves(500_000, 600_000, 9_000_000)))
    assert "| Swimmer 100 % | 128.25 | 1,390,000 | 600,000 | 3 (2) | met |" in early
    late = campaign.fill(text, campaign.Rows(runs, curves(500_000, 9_000_000, 9_000_000)))
    assert "| Swimmer 100 % | 128.25 | 1,390,000 | not reached | 3 (1) | missed |" in late
    assert "| Hopper 75 % | 2561.11 | 9,630,000 | | | not run |" in late
    assert "Met: 0 of the 4 rows that were run, of 24 in all." in late


def test_a_published_budget_is_judged_by_runs_that_reach_it(campaign: Any):
    hopper = {"part": "openai-es", "env": "Hopper-v5"}
    half = {**hopper, "group": "half", "seed": "0", "env_steps": "3730000"}
    whole = {**hopper, "group": "whole", "seed": "0", "env_steps": "31600000"}
    curves = [
        {"group": run["group"], "seed": "0", "env_steps": f"{at}", "mean": mean, "of": ""}
        for run, at, mean in (
            *((half, 100_000, "1000"), (half, 3_730_000, "900")),
            *((whole, 100_000, "0"), (whole, 9_000_000, "2600"), (whole, 31_600_000, "2600")),
        )
    ]
    text = "<!-- begin openai-es -->\n<!-- end openai-es -->"
    filled = campaign.fill(text, campaign.Rows([half, whole], curves))
    assert "| Hopper 25 % | 877.45 | 383,000 | 100,000 | 1 (1) | met |" in filled
    assert "| Hopper 75 % | 2561.11 | 9,630,000 | 9,000,000 | 1 (1) | met |" in filled
    assert "| Hopper 100 % | 3403.46 | 31,600,000 | not reached | 1 (0) | missed |" in filled
    shorter = campaign.fill(text, campaign.Rows([half], curves))
    assert "| Hopper 75 % | 2561.11 | 9,630,000 | | | runs are too short |" in shorter


def test_shorter_runs_count_where_all_of_them_have_reached_the_score(campaign: Any):
    def filled(*seen: tuple[int, int, str]) -> str:
        runs = [
            {
                "part": "openai-es",
                "env": "Hopper-v5",
                "group": "g",
                "seed": str(seed),
                "env_steps": str(length),
            }
            for seed, (length, _, _) in enumerate(seen)
        ]
        curves = [
            {"group": "g", "seed": str(seed), "env_steps": str(at), "mean": mean, "of": ""}
            for seed, (length, first, reached) in enumerate(seen)
            for at, mean in ((first, reached), (length, reached))
        ]
        text = "<!-- begin openai-es -->\n<!-- end openai-es -->"
        return campaign.fill(text, campaign.Rows(runs, curves))

    row, short, long = "| Hopper 75 % | 2561.11 | 9,630,000 |", 5_000_000, 9_700_000
    assert f"{row} 3,000,000 | 2 (2) | met |" in filled(
        (short, 2_000_000, "2600"), (short, 4_000_000, "2700")
    )
    found = filled((short, 2_000_000, "2600"), (short, 3_000_000, "2500"))
    assert f"{row} | | runs are too short |" in found
    lost, got = (long, 3_000_000, "2500"), (short, 2_000_000, "2600")
    assert f"{row} not reached | 2 (1) | missed |" in filled(lost, got)
    assert f"{row} not reached | 1 (0) | missed |" in filled(lost, (short, 3_000_000, "2500"))


def test_games_are_shown_beside_the_published_scores(campaign: Any):
    run = {"group": "g", "part": "es-atari", "seed": "0", "env_steps": "3000000"}
    rows = [
        {**run, "env": "Qbert-v5", "final_mean": "150.5"},
        {**run, "env": "Alien-v5", "final_mean": "9"},
    ]
    text = campaign.fill("<!-- begin es-atari -->\n<!-- end es-atari -->", campaign.Rows(rows))
    assert "| Alien | | | 570.2 | 182.1 | | 994.0 | | 9 | 0 | 3,000,000 |".replace(" ", "") in (
        text.replace(" ", "")
    )
    assert text.index("| Alien |") < text.index("| Q*Bert |")
    assert text.count("\n| ") == 3


def test_a_game_has_random_and_the_best_single_actions_beside_it(campaign: Any):
    run = {"group": "g", "part": "es-atari", "seed": "0", "env_steps": "9", "final_mean": "22"}
    rows = campaign.Rows([{**run, "env": "Freeway-v5"}])
    text = campaign.fill("<!-- begin es-atari -->\n<!-- end es-atari -->", rows)
    assert "| Freeway | 0 | 21.6 | 25.8 |" in text


def test_hts_is_a_share_of_ppo_counted_from_random_actions(campaign: Any):
    tables = import_module("campaign_tables")
    with open(tables.RANDOM, newline="") as lines:
        (random,) = [float(row["mean"]) for row in csv.DictReader(lines) if "Hopper" in row["env"]]
    runs, curves = [], []
    for method, gain in (("hts", 300.0), ("ppo", 200.0)):
        for seed in range(5, 9):
            key = {"group": f"{method}-Hopper", "seed": str(seed)}
            runs.append({**key, "part": "hts-goals", "method": method, "env": "Hopper-v5"})
            runs[-1]["env_steps"] = "1000"
            for at in (250, 500, 750, 1000):
                mean = f"{random + gain * at + seed}"
                curves.append({**key, "env_steps": str(at), "mean": mean, "of": ""})
    text = "<!-- begin hts-goals -->\n<!-- end hts-goals -->"
    filled = campaign.fill(text, campaign.Rows(runs, curves))
    assert "| Hopper-v5 | `ppo` | 5–8 and 5–8 | 1,000 | 1.50 (1.50 … 1.50) |" in filled
    (judged,) = [line for line in filled.splitlines() if "| Hopper-v5 |" in line]
    assert judged.endswith("| met |")
    worse = [{**row, "method": {"hts": "ppo", "ppo": "hts"}[row["method"]]} for row in runs]
    filled = campaign.fill(text, campaign.Rows(worse, curves))
    (judged,) = [line for line in filled.splitlines() if "| Hopper-v5 |" in line]
    assert judged.endswith("| missed |")
    assert "No run has ended yet." in campaign.fill(text, campaign.Rows(runs[:4], curves))


def test_a_ratio_of_noisy_scores_has_an_interval_around_it(campaign: Any):
    rng = np.random.default_rng(1)
    tables = import_module("campaign_hts_tables")
    found = tables.ratio(rng.normal(110, 20, 15), rng.normal(100, 20, 15))
    assert found.low < found.middle < found.high
    assert 0.8 < found.low < 1.1 < found.high < 1.5
    assert tables.ratio(np.ones(4), -np.ones(4)).middle == np.inf


def test_the_page_shows_every_run_and_holds_no_markup_of_names(campaign: Any, tmp_path: Path):
    (group,) = queue_of(campaign, tmp_path / "queue.toml", TINY)
    group = replace(group, env="<script>")
    states = {"tiny-s3": "done", "tiny-s4": "not begun"}
    rows = [{"group": "tiny", "seed": "3", "final_mean": "12.5"}]
    shown = campaign.page([group], states, {"tiny": 0.5}, rows)
    assert shown.count('title="seed') == 2
    assert "12.5, –" in shown
    assert "<script>" not in shown


def test_a_home_in_the_work_tree_is_refused(
    campaign: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    queue_of(campaign, tmp_path / "queue.toml", TINY)
    words = ["campaign.py", str(tmp_path / "queue.toml"), "status"]
    monkeypatch.setattr(sys, "argv", [*words, f"--home={HERE / 'inside'}"])
    assert campaign.main() == 2
    assert "lies in the work tree" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*words, f"--home={tmp_path / 'home'}"])
    assert campaign.main() == 0
    assert "tiny: 2 not begun; 1.0 core hours left" in capsys.readouterr().out


def test_train_takes_the_flags_of_every_study(campaign: Any, capsys: pytest.CaptureFixture[str]):
    studies = campaign.read_queue(HERE / "benchmarks" / "es_studies.toml")
    for group in studies:
        words = ["train", group.method, group.env, *group.flags, "--print-config"]
        assert cli.run(words) == 0, (group.name, capsys.readouterr().err)
    assert capsys.readouterr().out.count("total_steps") >= len(studies)


def test_the_queue_of_the_repository_can_be_read(campaign: Any):
    groups = campaign.read_queue(HERE / "benchmarks" / "campaign.toml")
    games = campaign.read_queue(HERE / "benchmarks" / "es_atari.toml")
    studies = campaign.read_queue(HERE / "benchmarks" / "es_studies.toml")
    every = [*groups, *games, *studies]
    shown = {group.env for group in every if group.part == "es-atari"}
    tables = import_module("campaign_tables")
    with open(tables.PUBLISHED_GAMES, newline="") as lines:
        assert shown == {row["environment"] for row in csv.DictReader(lines)}
    for group in every:
        tuning = group.part.endswith("tuning")
        assert all((100 <= seed <= 104) == tuning for seed in group.seeds), group.name
    text = campaign.RESULTS.read_text() + campaign.TUNING.read_text()
    assert all(f"<!-- begin {group.part} -->" in text for group in every)
    assert np.sum([group.hours * len(group.seeds) for group in groups]) > 0
