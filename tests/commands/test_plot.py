"""Pictures of runs."""

import json
from pathlib import Path

import numpy as np
from display.contribution_rows import HEADER, ROWS
from typed_commands import Terminal

from drumline.display.comparison import grouped, seeds_figure
from drumline.display.run_data import read_run
from drumline.runs.folder import RunFolder


def test_contributions_are_drawn_for_one_or_several_runs_and_refused_for_others(
    terminal: Terminal,
):
    folders: list[RunFolder] = []
    for seed in range(2):
        document = {"config": {"env": "CartPole-v1", "seed": seed}}
        folders.append(
            RunFolder.create(
                Path(f"a{seed}"), method="aes", env_id="CartPole-v1", seed=seed, document=document
            )
        )
        folders[-1].metrics_csv.write_text(HEADER + ROWS)
    ended = terminal("plot", "a0", "a1", "--contributions", "--out=c.png")
    assert (ended.code, ended.out) == (0, "c.png\n"), ended.err
    assert Path("c.png").read_bytes()[:4] == b"\x89PNG"
    ended = terminal("plot", "a0", "--contributions", "--json", "--title=Both")
    (run,) = json.loads(ended.out)["runs"]
    assert (run["run"], run["ES"]["individuals"], run["RL"]["distance_moved"]) == ("a0", 2, 6.0)
    assert run["RL"]["idle_after"] == 0.75
    folders[1].metrics_csv.write_text(
        "update,env_steps,wall_seconds,episode_return_mean\n1,2,3,4\n"
    )
    ended = terminal("plot", "a1", "--contributions")
    assert ended.code == 2
    assert "--contributions is for runs of aes" in ended.err


def folder_of(name: str, seed: int, std: float = 0.1) -> RunFolder:
    config = {"env": "CartPole-v1", "seed": seed, "std": std}
    folder = RunFolder.create(
        Path(name), method="es", env_id="CartPole-v1", seed=seed, document={"config": config}
    )
    rows = "".join(f"{i},{10 * i},{i},{seed + i},{0.5 * i}\n" for i in range(1, 6))
    head = "update,env_steps,wall_seconds,episode_return_mean,gradient_norm\n"
    folder.metrics_csv.write_text(head + rows)
    return folder


def test_seeds_of_one_config_are_a_group_with_what_differs_as_its_name(terminal: Terminal):
    for seed in range(3):
        folder_of(f"a{seed}", seed)
    folder_of("b0", 0, std=0.2)
    answer = json.loads(terminal("plot", "a0", "a1", "a2", "b0", "--json").out)
    assert answer["groups"] == [
        {"group": "es CartPole-v1 std=0.1", "runs": ["a0", "a1", "a2"]},
        {"group": "es CartPole-v1 std=0.2", "runs": ["b0"]},
    ]
    assert Path("curve.png").read_bytes()[:4] == b"\x89PNG"


def test_a_group_is_drawn_with_its_interval_and_each_run(tmp_path: Path):
    curves = [read_run(folder_of(str(tmp_path / f"a{seed}"), seed).path) for seed in range(3)]
    document = {"method": "es", "config": {"env": "CartPole-v1", "seed": 0}}
    (group,) = grouped([(document, curve) for curve in curves])
    (axes,) = seeds_figure([group], x="env_steps").axes
    assert len(axes.lines) == 4  # three runs and their mean
    assert len(axes.collections) == 1  # the interval
    assert np.asarray(axes.lines[3].get_ydata())[0] == 2.0
    assert axes.get_ylabel() == "episode return (training)"


def test_any_column_can_be_drawn_and_another_name_is_refused(terminal: Terminal, tmp_path: Path):
    folder = folder_of("a", 0)
    assert terminal("plot", "a", "--y", "gradient_norm").code == 0
    curve = read_run(folder.path, y="gradient_norm")
    assert curve.episode_return_mean.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert (curve.what, curve.evaluation_mean.size) == ("gradient norm", 0)
    refused = terminal("plot", "a", "--y", "gradient_norms")
    assert refused.code == 2
    assert "no such column; did you mean gradient_norm?" in refused.err
