"""Pictures of runs."""

import json
from pathlib import Path

from display.contribution_rows import HEADER, ROWS
from typed_commands import Terminal

from drumline.runs.folder import RunFolder


def test_contributions_are_drawn_for_one_or_several_runs_and_refused_for_others(
    terminal: Terminal,
):
    for seed in range(2):
        document = {"config": {"env": "CartPole-v1", "seed": seed}}
        folder = RunFolder.create(
            Path(f"a{seed}"), method="aes", env_id="CartPole-v1", seed=seed, document=document
        )
        folder.metrics_csv.write_text(HEADER + ROWS)
    ended = terminal("plot", "a0", "a1", "--contributions", "--out=c.png")
    assert (ended.code, ended.out) == (0, "c.png\n"), ended.err
    assert Path("c.png").read_bytes()[:4] == b"\x89PNG"
    ended = terminal("plot", "a0", "--contributions", "--json", "--title=Both")
    (run,) = json.loads(ended.out)["runs"]
    assert (run["run"], run["ES"]["individuals"], run["RL"]["distance_moved"]) == ("a0", 2, 6.0)
    assert run["RL"]["idle_after"] == 0.75
    folder.metrics_csv.write_text("update,env_steps,wall_seconds,episode_return_mean\n1,2,3,4\n")
    ended = terminal("plot", "a1", "--contributions")
    assert ended.code == 2
    assert "--contributions is for runs of aes" in ended.err
