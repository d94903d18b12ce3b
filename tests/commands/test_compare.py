"""Comparing runs: what is a group, what is equal, and what is printed."""

import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from typed_commands import TESTS, Terminal, environ

from drumline.commands.compare import _read
from drumline.display.comparison import comparison_figure, grouped
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import EVALUATIONS_HEADER

EVALUATIONS = (
    "update,env_steps,episodes,return_mean,return_std,return_min,return_max,returns,lengths\n"
)
METRICS = "update,env_steps,wall_seconds,episode_return_mean\n"


def recorded(
    name: str,
    seed: int,
    score: float,
    *,
    std: float = 0.1,
    updates: int = 10,
    method: str = "es",
    settings: dict[str, Any] | None = None,
) -> None:
    config = {"env": "CartPole-v1", "seed": seed, "std": std, **(settings or {})}
    folder = RunFolder.create(
        Path(name), method=method, env_id="CartPole-v1", seed=seed, document={"config": config}
    )
    rows = [f"{i},{100 * i},{i * std},{score * i}\n" for i in range(1, updates + 1)]
    folder.metrics_csv.write_text(METRICS + "".join(rows))


def test_one_and_one_point_zero_are_one_setting(terminal: Terminal):
    recorded("typed", 0, 10.0, std=1.0, settings={"hidden": [8, 8]})
    recorded("given", 1, 11.0, std=1, settings={"hidden": [8, 8]})
    recorded("bool", 2, 12.0, std=1.0, settings={"hidden": [8, 8], "normalize": True})
    recorded("number", 3, 12.0, std=1.0, settings={"hidden": [8, 8], "normalize": 1})
    ended = terminal("compare", "typed", "given", "bool", "number", "--json", "--out=c.png")
    assert [group["runs"] for group in json.loads(ended.out)["groups"]] == [2, 1, 1]


@pytest.mark.parametrize("command", ["compare", "plot", "report"])
def test_a_run_without_an_update_is_left_out_and_named(terminal: Terminal, command: str):
    recorded("whole", 0, 10.0)
    recorded("empty", 1, 10.0, updates=0)
    recorded("stopped", 2, 10.0)
    Path("stopped/metrics.csv").unlink()
    ended = terminal(command, "whole", "empty", "stopped", "--out=file.png")
    assert ended.code == 0, ended.err
    assert "drumline: left out: empty, stopped; no updates yet" in ended.err
    assert Path("file.png").stat().st_size > 0
    alone = terminal(command, "stopped", "./stopped", "--out=other.png")
    assert alone.code == 2
    assert "stopped: no updates yet, so there is nothing to show" in alone.err
    assert not Path("other.png").exists()


@pytest.mark.parametrize("columns", [200, 80, 40])
def test_a_terminal_of_any_width_shows_every_name_and_number(tmp_path: Path, columns: int):
    """A table that is too wide is printed without borders: a cell that is cut off says nothing."""
    place = TESTS / "commands"
    code = (
        f"import os; os.chdir({str(tmp_path)!r})\n"
        "from commands.test_compare import recorded\n"
        "recorded('a', 0, 10.0, std=0.01)\nrecorded('b', 0, 12.0, std=0.02)\n"
        "from drumline.cli import main\nmain(['compare', 'a', 'b'])\n"
    )
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    env = {**environ(), "PYTHONPATH": f"{TESTS}{os.pathsep}{place}", "TERM": "xterm"}
    env = {name: value for name, value in env.items() if name not in ("NO_COLOR", "COLUMNS")}
    subprocess.run([sys.executable, "-c", code], check=True, stdout=terminal, env=env)
    os.close(terminal)
    said = os.read(main, 1 << 16).decode()
    os.close(main)
    assert ("│" in said) == (columns == 200)
    for words in ("es CartPole-v1 std=0.01", "es CartPole-v1 std=0.02", "100.0", "120.0"):
        assert words in said
    assert "…" not in said


def test_seeds_are_one_group_and_other_settings_are_named(terminal: Terminal):
    for seed in range(4):
        recorded(f"a{seed}", seed, 10.0 + seed)
    recorded("b", 0, 5.0, std=0.2, updates=5)
    ended = terminal("compare", "a0", "a1", "a2", "a3", "b", "--json", "--out=c.png")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    many, one = answer["groups"]
    assert (many["group"], many["runs"]) == ("es CartPole-v1 std=0.1", 4)
    assert (one["group"], one["runs"]) == ("es CartPole-v1 std=0.2", 1)
    assert many["final"]["iqm"] == pytest.approx(115)
    assert many["final"]["low"] < 115 < many["final"]["high"]
    assert answer["env_steps"] == 500
    assert many["at_equal_env_steps"]["iqm"] == pytest.approx(57.5)
    assert one["final"] == {"runs": 1, "iqm": 25.0, "low": None, "high": None}
    # 100, 110, 120 and 130 at the end; no return fell below one before.
    assert many["stability"]["std"] == pytest.approx((500 / 3) ** 0.5)
    assert (many["stability"]["worst"], many["stability"]["worst_run"]) == (100.0, "a0")
    assert (many["stability"]["drawdown"], many["stability"]["falling_share"]) == (0.0, 0.0)
    assert one["stability"]["std"] is None
    assert Path("c.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_from_before_a_setting_is_grouped_with_those_that_left_it_out(terminal: Terminal):
    early = {"num_envs": 16}
    late = {**early, "final_entropy_coefficient": None, "anneal_clip": False}
    recorded("before", 0, 1.0, method="ppo", settings=early)
    recorded("after", 1, 1.0, method="ppo", settings=late)
    recorded("falling", 1, 1.0, method="ppo", settings=late | {"anneal_clip": True})
    answer = json.loads(terminal("compare", "before", "after", "falling", "--json").out)
    found = [(group["group"], group["runs"]) for group in answer["groups"]]
    assert found == [
        ("ppo CartPole-v1 anneal_clip=False", 2),
        ("ppo CartPole-v1 anneal_clip=True", 1),
    ]


def test_the_table_is_plain_without_a_terminal_and_absent_if_quiet(terminal: Terminal):
    recorded("a", 0, 1.0)
    ended = terminal("compare", "a")
    assert "\x1b" not in ended.out
    assert ended.out.splitlines()[0].startswith("group")
    assert terminal("compare", "a", "--quiet").out == "compare.png\n"


def test_nothing_to_compare_is_wrong_use(terminal: Terminal):
    assert "at least one RUN" in terminal("compare").err


def test_the_fall_of_a_run_below_its_best_is_its_drawdown(terminal: Terminal):
    recorded("a", 0, 1.0)
    recorded("b", 1, 1.0)
    with Path("b/metrics.csv").open("a") as lines:
        lines.write("11,1100,1.1,4.0\n")
    ended = terminal("compare", "a", "b", "--json")
    (group,) = json.loads(ended.out)["groups"]
    stability = group["stability"]
    assert (stability["drawdown"], stability["worst_run"]) == (3.0, "b")
    assert stability["falling_share"] == pytest.approx(0.05)  # 1 of 10 steps in one of two runs


def test_a_final_score_is_that_of_the_last_evaluation_as_in_report(terminal: Terminal):
    for seed, final in enumerate((500.0, 480.0)):
        recorded(f"a{seed}", seed, 32.5)
        row = f"10,1000,2,{final},0.0,{final},{final},{final};{final},9;9\n"
        Path(f"a{seed}/evaluations.csv").write_text(f"{EVALUATIONS_HEADER}\n{row}")
    answer = json.loads(terminal("compare", "a0", "a1", "--json").out)
    (group,) = answer["groups"]
    assert (answer["compared"], answer["final_of"]) == ("training", "evaluation")
    assert group["final"]["iqm"] == pytest.approx(490.0)
    assert (group["stability"]["worst"], group["stability"]["worst_run"]) == (480.0, "a1")
    assert group["at_equal_env_steps"]["iqm"] == pytest.approx(325.0)
    said = "final: mean return of a run's last evaluation"
    assert said in terminal("compare", "a0", "a1").out
    assert (
        "at equal env steps (1000) and time (1.0 s): training returns"
        in terminal("compare", "a0", "a1").out
    )
    assert terminal("report", "a0", "a1").code == 0
    page = Path("report.html").read_text().replace("&#x27;", "'")
    assert said in page
    assert "<td>490.0</td>" in page


def test_runs_without_a_value_are_not_counted_in_a_score(terminal: Terminal):
    for seed in range(4):
        recorded(f"a{seed}", seed, 10.0)
    rows = [f"{i},{100 * i},{i * 0.1},\n" for i in range(1, 11)]
    Path("a0/metrics.csv").write_text(METRICS + "".join(rows))
    assert " 2     100.0 of 1 run  100.0 of 1 run " in terminal("compare", "a0", "a1").out
    ended = terminal("compare", "a0", "a1", "a2", "a3", "--out=c.png")
    assert " 4     100.0 [100.0, 100.0] of 3 runs " in ended.out
    groups = grouped(_read(["a0", "a1"]))
    (label,) = comparison_figure(groups).axes[0].get_legend_handles_labels()[1]
    assert label.endswith("(1 of 2 runs)")
    assert terminal("report", "a0", "a1").code == 0
    assert "<td>100.0 of 1 run</td>" in Path("report.html").read_text()


def test_without_evaluations_a_final_score_is_of_training_and_says_so(terminal: Terminal):
    recorded("a", 0, 1.0)
    ended = terminal("compare", "a")
    assert "final: mean return of a run's latest training episodes" in ended.out


def test_a_repeat_of_a_seed_is_no_other_run(terminal: Terminal):
    for name, seed in (("a0", 0), ("again", 0), ("a1", 1)):
        recorded(name, seed, 10.0)
    ended = terminal("compare", "a0", "again", "a1")
    assert "left out, for they repeat another run's seed and values: again" in ended.out
    document = json.loads(terminal("compare", "a0", "again", "a1", "--json").out)
    assert document["repeats"] == ["again"]
    assert [group["runs"] for group in document["groups"]] == [2]
    assert json.loads(terminal("compare", "a0", "a1", "--json").out)["repeats"] == []


def test_a_file_beside_runs_is_named_as_one(terminal: Terminal):
    recorded("a0", 0, 10.0)
    Path("bench.json").write_text("{}")
    ended = terminal("compare", "a0", "bench.json")
    assert ended.code == 2
    assert "bench.json is a file, not a run folder" in ended.err
