"""A campaign's groups may need packages, run alone, wait for a choice, or run a script."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmark_scripts import load_script

from drumline import cli

HERE = Path(__file__).resolve().parents[2]
GROUP = """
name = "{name}"
part = "small"
method = "es"
env = "Hopper-v5"
seeds = [0, 1]
hours = 0.5
"""


@pytest.fixture(scope="module")
def campaign() -> Any:
    """The modules of a campaign, imported as its script imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE / "benchmarks"))
        patch.syspath_prepend(str(HERE / "benchmarks" / "learning"))
        yield load_script("", "campaign")


def groups_of(campaign: Any, path: Path, **more: str) -> Any:
    texts = [GROUP.format(name=name) + lines for name, lines in more.items()]
    path.write_text("\n".join(f"[[group]]\n{text}" for text in texts))
    return campaign.read_queue(path)


class Processes:
    """Children of a worker that end when they are asked for the second time."""

    def __init__(self) -> None:
        self.begun: list[list[str]] = []
        self.beside: list[int] = []
        self._alive: set[int] = set()

    def __call__(self, command: list[str], **_: Any) -> Any:
        number = len(self.begun)
        self.begun.append(command)
        self.beside.append(len(self._alive))
        self._alive.add(number)
        asked = [0]

        def poll() -> int | None:
            asked[0] += 1
            if asked[0] < 2:
                return None
            self._alive.discard(number)
            return 0

        return SimpleNamespace(poll=poll, pid=2**30, returncode=0, send_signal=lambda _: None)


class Bare:
    """A checkout whose commands say what they are."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}

    def drumline(self, *words: str) -> list[str]:
        return ["drumline", *words]

    def script(self, script: str, *words: str) -> list[str]:
        return [script, *words]


def work(campaign: Any, home: Any, groups: Any, patch: pytest.MonkeyPatch) -> Processes:
    """Work off groups with children that do nothing, two at a time."""
    module, processes = sys.modules["campaign_work"], Processes()
    patch.setattr(module, "subprocess", SimpleNamespace(Popen=processes, STDOUT=1, DEVNULL=2))
    patch.setattr(module.signal, "signal", lambda *_: None)
    runs = campaign.in_order(groups)
    worker = campaign.Worker(home, lambda: runs, 2, lambda _: Bare(), "abc", lambda *_: None)
    worker.work(poll_seconds=0.0)
    return processes


def test_a_run_that_measures_time_runs_beside_no_other(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    groups = groups_of(campaign, tmp_path / "q.toml", a="", time="alone = true", b="")
    home = campaign.Home(tmp_path / "home")
    processes = work(campaign, home, groups, monkeypatch)
    made = [
        (Path(words[-1].removeprefix("--out=")).name, beside)
        for words, beside in zip(processes.begun, processes.beside, strict=True)
    ]
    assert [beside for name, beside in made if name.startswith("time")] == [0, 0]
    assert max(beside for _, beside in made) == 1
    order = [name for name, _ in made]
    assert order == ["a-s0", "time-s0", "b-s0", "a-s1", "time-s1", "b-s1"]


def test_what_cannot_be_installed_skips_its_groups_and_says_why(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    football = 'needs = ["football"]\nmandatory = true'
    groups = groups_of(campaign, tmp_path / "q.toml", ball=football, plain="")
    home, needs = campaign.Home(tmp_path / "home"), sys.modules["campaign_needs"]
    monkeypatch.setattr(needs, "FOOTBALL", "gfootball/no_such_game-v1")
    monkeypatch.setattr(Bare, "python", Path(sys.executable), raising=False)
    processes = work(campaign, home, groups, monkeypatch)
    assert [words[6] for words in processes.begun] == ["--seed=0", "--seed=1"]
    assert all("plain" in words[-1] for words in processes.begun)
    ball, *_, last = campaign.status(home, groups)
    assert ball.startswith("ball: 2 skipped (football: ")
    assert "no_such_game" in ball
    assert last == "not working; mandatory runs: 0.0 core hours left; all runs: 0.0 core hours left"
    campaign.try_again(home)
    assert campaign.status(home, groups)[0] == "ball: 2 not begun; 1.0 core hours left"


def test_a_script_makes_the_run_with_what_its_needs_tell_it(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = 'script = "benchmarks/x.py"\nflags = ["--fast"]\nneeds = ["stable-baselines3"]'
    (group,) = groups_of(campaign, tmp_path / "q.toml", sb3=words)
    provided = sys.modules["campaign_needs"].Provided(("--peer-python=P",))
    monkeypatch.setattr(sys.modules["campaign_work"], "provide", lambda *_: provided)
    home = campaign.Home(tmp_path / "home")
    processes = work(campaign, home, [replace(group, seeds=(3,))], monkeypatch)
    out = f"--out={home.path}/runs/sb3-s3"
    (command,) = processes.begun
    assert command[:2] == ["nice", "-n19"]
    assert " ".join(command[2:]) == (
        f"benchmarks/x.py es Hopper-v5 --seed=3 --fast {out} --peer-python=P"
    )
    assert campaign.Run(group, 3).command_line == (
        "python benchmarks/x.py es Hopper-v5 --seed=3 --fast"
    )


@pytest.mark.parametrize("changed", [False, True])
def test_what_a_script_has_made_is_kept_until_its_flags_change(
    campaign: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
):
    words = 'script = "benchmarks/x.py"\nflags = ["--fast"]'
    (group,) = groups_of(campaign, tmp_path / "q.toml", timed=words)
    group = replace(group, seeds=(3,))
    home, run = campaign.Home(tmp_path / "home"), campaign.Run(group, 3)
    home.write_note(run, commit="abc123", process=None)  # as a pause leaves it
    rows = home.folder(run) / "rows.csv"
    rows.parent.mkdir(parents=True)
    rows.write_text("method\nhts\n")
    now = replace(group, flags=("--slow",)) if changed else group
    work(campaign, home, [now], monkeypatch)
    assert rows.exists() is not changed


def test_a_scripts_rows_are_those_of_its_run_and_are_not_made_again(campaign: Any, tmp_path: Path):
    words = 'script = "benchmarks/x.py"\ntable = "own.csv"'
    (group,) = groups_of(campaign, tmp_path / "q.toml", timed=words)
    home, tables = campaign.Home(tmp_path / "home"), campaign.Tables.beside(tmp_path)
    for seed, seconds in ((1, 5.0), (0, 7.0), (0, 9.0)):
        run = campaign.Run(group, seed)
        home.folder(run).mkdir(parents=True, exist_ok=True)
        (home.folder(run) / "rows.csv").write_text(f"method,commit\nhts,c{seed}\nppo,c{seed}\n")
        campaign.record(tables, run, home.folder(run), Bare(), seconds)
    rows = campaign.read_rows(tables.of_script("own.csv"))
    assert [(row["seed"], row["method"], row["run_seconds"]) for row in rows] == [
        *(("0", "hts", "9"), ("0", "ppo", "9")),
        *(("1", "hts", "5"), ("1", "ppo", "5")),
    ]
    assert not tables.runs.exists()
    elsewhere = campaign.Home(tmp_path / "elsewhere")
    campaign.adopt(elsewhere, [group], rows)
    assert campaign.hours_left(elsewhere, group) == 0.0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('needs = ["gpu"]', "group a: needs are of cma, football, stable-baselines3, got 'gpu'"),
        ('chosen = "step size"', "group a: no group has the choice 'step size'"),
        ("place = 0", "group a: place must be at least 1, got 0"),
        ('table = "own.csv"', "group a has a table without a script that makes its rows"),
        ("alone = 1", "group a: alone must be a bool, got 1"),
    ],
)
def test_a_group_that_cannot_run_is_refused(
    campaign: Any, tmp_path: Path, lines: str, message: str
):
    with pytest.raises(campaign.BadQueue, match=message):
        groups_of(campaign, tmp_path / "q.toml", a=lines)


def rows_of(group: Any, means: list[float]) -> tuple[list[Any], list[Any]]:
    """Rows of runs that score the same at every budget."""
    runs = [
        {"group": group.name, "seed": str(seed), "env_steps": "100"}
        for seed, _ in zip(group.seeds, means, strict=False)
    ]
    curves = [
        {**row, "env_steps": str(at), "mean": str(mean), "of": ""}
        for row, mean in zip(runs, means, strict=False)
        for at in (25, 50, 75, 100)
    ]
    return runs, curves


def test_the_best_candidate_over_both_tasks_gives_its_flags(campaign: Any, tmp_path: Path):
    evaluated = {"h": "", "w": ', "--evaluate-every=3"'}  # is no part of a candidate
    tuned = {
        f"{letter}{number}": f'choice = "r"\nflags = ["--r={number}"{evaluated[letter]}]\n'
        for number in (1, 2)
        for letter in "hw"
    }
    later = 'chosen = "r"\nflags = ["--total-steps=9"]'
    groups = groups_of(campaign, tmp_path / "q.toml", **tuned, goal=later)
    groups = [
        replace(group, env="Walker2d-v5") if group.name[0] == "w" else group for group in groups
    ]
    home = campaign.Home(tmp_path / "home")
    # The first is far ahead on one task and the second a little on the other.
    means = {"h1": 1000.0, "w1": 900.0, "h2": 300.0, "w2": 1000.0}
    runs, curves = [], []
    for group in groups[:-1]:
        made = rows_of(group, [means[group.name]] * 2)
        runs, curves = runs + made[0], curves + made[1]

    def outcome(runs: list[Any], failed: Any = lambda run: False) -> Any:
        return sys.modules["campaign_choice"].resolved(groups, runs, curves, failed)[-1]

    decided = outcome(runs)
    assert decided.flags == ("--r=1", "--total-steps=9")
    assert home.state(campaign.Run(decided, 0)) == "not begun"
    waiting = outcome(runs[:-1])
    assert waiting == groups[-1]
    assert home.state(campaign.Run(waiting, 0)) == "waiting"
    assert campaign.status(home, [waiting])[0].startswith("goal: 2 waiting (for the choice of r)")
    # A candidate with a run that failed is out.
    lost = outcome(runs[:3] + runs[4:], lambda run: run.name == "w1-s1")
    assert lost.flags == ("--r=2", "--total-steps=9")


def test_rows_of_former_flags_decide_nothing(campaign: Any, tmp_path: Path):
    tuned = {f"h{r}": f'choice = "r"\nflags = ["--r={r}"]\n' for r in (1, 2)}
    groups = groups_of(campaign, tmp_path / "q.toml", **tuned, goal='chosen = "r"')
    runs, curves = [], []
    for group, mean in zip(groups, (800.0, 900.0), strict=False):
        made = rows_of(group, [mean] * 2)
        for row in made[0]:
            row["command"] = campaign.Run(group, int(row["seed"])).command_line
        runs, curves = runs + made[0], curves + made[1]
    resolved = sys.modules["campaign_choice"].resolved
    assert resolved(groups, runs, curves, lambda run: False)[-1].flags == ("--r=2",)
    changed = [replace(groups[0], flags=("--r=3",)), *groups[1:]]
    assert resolved(changed, runs, curves, lambda run: False)[-1].chosen == "r"
    # A table's row has one setting: of a group that is made again, that of the queue.
    runs[0] = {**runs[0], "command": campaign.Run(changed[0], 0).command_line}
    kept = campaign.of_one_command(changed, runs)
    assert [(row["group"], row["seed"]) for row in kept] == [("h1", "0"), ("h2", "0"), ("h2", "1")]
    assert len(campaign.of_one_command(changed, runs[1:])) == 3


def test_a_second_stage_compares_the_best_of_the_first_on_more_seeds_and_tasks(
    campaign: Any, tmp_path: Path
):
    first = {f"h{r}": f'choice = "first"\nflags = ["--r={r}"]\n' for r in (1, 2, 3)}
    second = {
        f"{letter}{place}": f'choice = "second"\nchosen = "first"\nplace = {place}\n'
        for place in (1, 2)
        for letter in "fw"
    }
    later = {"goal": 'chosen = "second"\nflags = ["--total-steps=9"]'}
    groups = groups_of(campaign, tmp_path / "q.toml", **first, **second, **later)
    groups = [
        replace(group, env="Walker2d-v5") if group.name[0] == "w" else group for group in groups
    ]
    resolved = sys.modules["campaign_choice"].resolved

    def rows(**means: list[float]) -> tuple[list[Any], list[Any]]:
        made = [rows_of(group, means[group.name]) for group in groups if group.name in means]
        return [row for runs, _ in made for row in runs], [row for _, more in made for row in more]

    def now(**means: list[float]) -> dict[str, Any]:
        found = resolved(groups, *rows(**means), lambda run: False)
        return {group.name: group for group in found}

    tuned = {"h1": [300.0] * 2, "h2": [1000.0] * 2, "h3": [900.0] * 2}
    waiting = now(**{**tuned, "h3": [900.0]})
    assert waiting["f1"].chosen == "first"
    begun = now(**tuned)
    assert [begun[name].flags for name in ("f1", "w1", "f2", "w2")] == [
        ("--r=2",),
        ("--r=2",),
        ("--r=3",),
        ("--r=3",),
    ]
    assert begun["goal"].chosen == "second"
    # On the new seeds alone r = 2 is behind; with those of the first stage it is ahead.
    walks = {"w1": [800.0] * 2, "w2": [800.0] * 2}
    ended = now(**tuned, **walks, f1=[950.0] * 2, f2=[1000.0] * 2)
    assert ended["goal"].flags == ("--r=2", "--total-steps=9")
    ended = now(**tuned, **{**walks, "w2": [1000.0] * 2}, f1=[950.0] * 2, f2=[1000.0] * 2)
    assert ended["goal"].flags == ("--r=3", "--total-steps=9")
    # What was decided is shown as it was, although the finalists' flags are known by then.
    table = sys.modules["campaign_choice"].choice_table(
        list(ended.values()),
        *rows(**tuned, **walks, f1=[950.0] * 2, f2=[1000.0] * 2),
        lambda run: False,
    )
    assert table[2:] == ["| first | 3 | `--r=2` |", "| second | 2 | `--r=2` |"]


def test_a_candidate_below_random_actions_loses_to_one_that_is_less_so(
    campaign: Any, tmp_path: Path
):
    tuned = {f"h{r}": f'choice = "r"\nflags = ["--r={r}"]\n' for r in (1, 2)}
    groups = groups_of(campaign, tmp_path / "q.toml", **tuned, goal='chosen = "r"')
    runs, curves = [], []
    for group, mean in zip(groups, (-900.0, -800.0), strict=False):
        made = rows_of(group, [mean] * 2)
        runs, curves = runs + made[0], curves + made[1]
    found = sys.modules["campaign_choice"].resolved(groups, runs, curves, lambda run: False)
    assert found[-1].flags == ("--r=2",)


def test_the_page_says_what_has_not_been_run_and_why(campaign: Any, tmp_path: Path):
    choice = 'choice = "r"\nflags = ["--r=1"]'
    groups = groups_of(
        campaign,
        tmp_path / "q.toml",
        some=choice,
        none="",
        ball='needs = ["football"]',
        goal='chosen = "r"',
    )
    home = campaign.Home(tmp_path / "home")
    home.missing("football").parent.mkdir(parents=True)
    home.missing("football").write_text("no wheel\n")
    text = "<!-- begin small -->\nold\n<!-- end small -->"
    runs, curves = rows_of(groups[0], [1.0])
    rows = campaign.Rows([{**row, "part": "small"} for row in runs], curves)
    filled = campaign.fill(text, rows, groups, home)
    assert "| r | 1 | runs are outstanding |" in filled
    assert filled.splitlines()[-2] == (
        "Not run yet: `some` (seed 1), `none`, `ball` (skipped: football: no wheel), "
        "`goal` (waits for the choice of r)."
    )
    assert campaign.fill(filled, rows, groups, home) == filled
    empty = campaign.fill(text, campaign.Rows([]), groups, home)
    assert "No run has ended yet.\n" in empty
    assert "Not run yet: `some`, `none`" in empty


@pytest.fixture(scope="module")
def queue(campaign: Any) -> Any:
    return campaign.read_queue(HERE / "benchmarks" / "campaign.toml")


def test_mandatory_runs_of_the_queue_go_before_all_others(campaign: Any, queue: Any):
    last = max(group.priority for group in queue if group.mandatory)
    assert last < min(group.priority for group in queue if not group.mandatory)
    decide = {group.choice for group in queue if group.choice}
    assert decide == {group.chosen for group in queue if group.chosen}
    for group in queue:
        before = [other for other in queue if other.choice == group.chosen and group.chosen]
        assert all(other.priority <= group.priority for other in before), group.name


@pytest.mark.parametrize(("best", "state"), [("100", "done"), ("99", "missed")])
def test_a_run_below_the_score_of_its_group_is_shown_as_missed(
    campaign: Any, tmp_path: Path, best: str, state: str
):
    (group,) = groups_of(campaign, tmp_path / "q.toml", a="score = 100.0")
    row = {"group": "a", "seed": "0", "final_mean": "50", "best_mean": best}
    states = {f"a-s{seed}": "done" for seed in group.seeds}
    shown = campaign.page([group], states, {"a": 0.0}, [row])
    assert shown.count(f'title="seed 0: {state}"') == 1
    assert shown.count('title="seed 1: done"') == 1


def test_td3_of_the_first_release_has_its_networks_and_step_size_in_every_group(queue: Any):
    released = [group for group in queue if group.name.endswith("-first-release")]
    assert len(released) > 10
    for group in released:
        words = " ".join(group.flags)
        assert "--hidden 400 300" in words, group.name
        assert "--learning-rate=1e-3" in words, group.name


def test_every_choice_of_the_queue_can_be_scored(campaign: Any, queue: Any):
    tables = sys.modules["campaign_tables"]
    assert {group.env for group in queue if group.choice} <= set(tables.random_means())
    tasks: dict[str, dict[tuple[str, ...], set[str]]] = {}
    for group in queue:
        if group.choice:
            of_flags = tasks.setdefault(group.choice, {})
            flags = sys.modules["campaign_choice"].candidate(group)
            of_flags.setdefault((*flags, str(group.place)), set()).add(group.env)
    for name, candidates in tasks.items():
        assert len(candidates) > 1, name
        assert len(set(map(frozenset, candidates.values()))) == 1, f"{name} lacks tasks"


def test_the_page_has_a_colour_for_every_state(campaign: Any, tmp_path: Path):
    (group,) = groups_of(campaign, tmp_path / "q.toml", a="")
    states = sys.modules["campaign_queue"].State.__args__
    for state in states:
        shown = campaign.page([group], {"a-s0": state, "a-s1": state}, {"a": 0.5}, [])
        assert shown.count(f'title="seed 0: {state}"') == 1


def test_scripts_of_the_queue_are_there(queue: Any):
    scripts = {group.script for group in queue if group.script}
    assert len(scripts) == 2
    assert all((HERE / script).exists() for script in scripts)


@pytest.mark.slow
def test_every_command_that_is_left_in_the_queue_is_taken(
    campaign: Any, queue: Any, capsys: pytest.CaptureFixture[str]
):
    # Presets may have changed since: a row has the commit whose command it is.
    ended = {(row["group"], row["seed"]) for row in campaign.all_rows(queue)}
    left = [
        group
        for group in queue
        if not all((group.name, str(seed)) in ended for seed in group.seeds)
    ]
    for group in left:
        first = [other.flags for other in queue if other.choice and other.choice == group.chosen]
        words = [group.method, group.env, "--seed=5", *(first[0] if first else ()), *group.flags]
        if not group.script:
            assert cli.run(["train", *words, "--print-config"]) == 0, group.name
            assert group.env in capsys.readouterr().out
