"""Table and chart of the limits have the numbers of their CSV; a real path makes a row."""

import csv
import shutil
import struct
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import BENCHMARKS, load_script

LINES = """\
measured,path,ours,unit,bound_kind,bound,ratio,ratio_min,ratio_max,limit_kind,limit,share,\
goal_ratio,goal_share,others_busy,seconds,machine,versions,commit,tree,command,seeds
es-hopper,"es, Hopper-v5, 2 workers",12345.6,env steps/s,bare Gymnasium loop,9876,1.25,1.199,1.3,\
raw mj_step and policy,20000,0.617,1.2,0.65,0.03,61,"A processor, 2 cores",python=3,abc1234,clean,\
python benchmarks/limits.py,0
driver,"es, driver, 16 workers, CartPole-v1",25.5,µs an episode,"the goal, not a measurement",20,\
0.784,0.7,0.8,,,,1,,0.01,30,"A processor, 2 cores",python=3,abc1234,clean,\
python benchmarks/limits.py,0
"""
PAGE = "# Page\n\nBefore.\n\n<!-- begin limits -->\nold\n<!-- end limits -->\n\nAfter.\n"


@pytest.fixture(scope="module")
def limits() -> Any:
    return load_script("", "limits")


@pytest.fixture(scope="module")
def page() -> Any:
    return load_script("", "limits_page")


@pytest.fixture(scope="module")
def flops() -> Any:
    return load_script("", "limits_flops")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LINES)
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path


def run(limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    places = ["--out", "limits.csv", "--page", "page.md", "--chart", "limits.png"]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "limits.py"), *places, *words])
    limits.main()


def test_the_table_has_the_numbers_of_the_csv(
    limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    run(limits, folder, monkeypatch, "--table")
    text = (folder / "page.md").read_text()
    begin, rest = text.split("<!-- begin limits -->\n")
    made, end = rest.split("<!-- end limits -->")
    assert (begin, end) == ("# Page\n\nBefore.\n\n", "\n\nAfter.\n")
    _, _, es, driver, *below = made.splitlines()
    assert es == (
        "| es, Hopper-v5, 2 workers | 12,346 env steps/s | bare Gymnasium loop: 9,876 "
        "| 1.25 (1.199 … 1.3) | raw mj_step and policy: 20,000 | 0.617 "
        "| ratio ≥ 1.2: met; share ≥ 0.65: not met |"
    )
    assert driver == (
        "| es, driver, 16 workers, CartPole-v1 | 25.5 µs an episode "
        "| the goal, not a measurement: 20 | 0.784 (0.7 … 0.8) |  |  | ratio ≥ 1: not met |"
    )
    assert "(images/limits.png)" in below[1]
    assert "A processor, 2 cores; code abc1234 (clean)" in below[3]
    assert "at most 3% of the cores' time" in below[3]
    assert (folder / "limits.csv").read_text() == LINES


def test_the_chart_is_a_png_with_a_bar_for_every_known_number(
    limits: Any, page: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    run(limits, folder, monkeypatch, "--table")
    data = (folder / "limits.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", data[16:24])) > 200
    figure = page.chart(page.read_rows(folder / "limits.csv"))
    (axis,) = figure.axes
    assert [bar.get_width() for bar in axis.patches] == [1.25, 0.784, 0.617]
    assert len({bar.get_hatch() for bar in axis.patches}) == 2
    figure.canvas.draw()
    labels = axis.get_yticklabels()
    assert [label.get_text() for label in labels] == [
        "es, Hopper-v5, 2 workers",
        "es, driver, 16 workers, CartPole-v1",
    ]
    assert min(label.get_window_extent().x0 for label in labels) >= 0.0
    diamonds = [goal for drawn in axis.collections for goal in drawn.get_offsets()[:, 0]]
    assert diamonds == [1.2, 1.0, 0.65]


def test_without_rows_the_page_says_so_and_there_is_no_chart(
    limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "limits.csv").unlink()
    run(limits, folder, monkeypatch, "--table")
    assert "<!-- begin limits -->\nNot measured yet.\n<!-- end" in (folder / "page.md").read_text()
    assert not (folder / "limits.png").exists()


def test_a_page_without_markers_is_refused(page: Any, tmp_path: Path):
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(ValueError, match=r"page\.md has no <!-- begin limits -->"):
        page.write_page([], tmp_path / "page.md", tmp_path / "limits.png")


def test_minutes_must_be_a_time(
    limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        run(limits, folder, monkeypatch, "--minutes", "0")
    assert "--minutes is a time, got 0" in capsys.readouterr().err


def test_a_path_that_fails_keeps_its_rows_and_those_of_the_others(
    limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(task: Any) -> Any:
        return task.run("td3_steps", "--rounds", "none")

    def works(task: Any) -> Any:
        return [{"path": "lean", "ours": "2", "unit": "µs", "ratio": "1.5"}]

    monkeypatch.setitem(limits.PATHS, "driver", limits.PATHS["driver"]._replace(rows=fails))
    monkeypatch.setitem(limits.PATHS, "lean", limits.PATHS["lean"]._replace(rows=works))
    with pytest.raises(SystemExit, match="not measured:\ndriver: Command"):
        run(limits, folder, monkeypatch, "--only", "driver", "lean")
    with open(folder / "limits.csv", newline="") as lines:
        found = [(row["measured"], row["ours"]) for row in csv.DictReader(lines)]
    assert found == [("es-hopper", "12345.6"), ("lean", "2"), ("driver", "25.5")]
    assert "| lean | 2 µs |" in (folder / "page.md").read_text()


def test_a_path_without_time_is_named_and_not_measured(
    limits: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def slow(task: Any) -> Any:
        time.sleep(0.5)
        return [{"path": "lean", "ours": "2", "unit": "µs", "ratio": "1.5"}]

    def never(task: Any) -> Any:
        raise AssertionError("there was no time left")

    monkeypatch.setitem(limits.PATHS, "lean", limits.PATHS["lean"]._replace(rows=slow))
    monkeypatch.setitem(limits.PATHS, "driver", limits.PATHS["driver"]._replace(rows=never))
    with pytest.raises(SystemExit, match="driver: no time is left; --only driver"):
        run(limits, folder, monkeypatch, "--only", "lean", "driver", "--minutes", "0.005")
    assert "| lean | 2 µs |" in (folder / "page.md").read_text()


def test_the_page_of_the_repository_is_made_from_its_rows(page: Any, tmp_path: Path):
    copy = shutil.copy(page.PAGE, tmp_path / "performance.md")
    page.write_page(page.read_rows(page.RESULTS), copy, page.CHART)
    assert copy.read_text() == page.PAGE.read_text()


def test_operations_of_gradient_steps_are_those_that_torch_counts(flops: Any):
    import torch
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    rows, hidden = 8, (16, 12)

    def network(*sizes: int) -> nn.Sequential:
        return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))

    actor, critic = network(17, *hidden, 6), network(23, *hidden, 1).requires_grad_(False)
    layers = flops.mlp(17, *hidden, 6), flops.mlp(23, *hidden, 1)
    with FlopCounterMode(display=False) as counted:
        seen = torch.ones(rows, 17)
        critic(torch.cat([seen, actor(seen)], 1)).sum().backward()
    # Torch leaves nothing out; the critic's gradient of the observations is a part of one product.
    assert counted.get_total_flops() == rows * flops.actor_step_flops(*layers)
    critic.requires_grad_(True)
    with FlopCounterMode(display=False) as counted:
        with torch.no_grad():
            after = torch.cat([seen, actor(seen)], 1)
            critic(after), critic(after)
        for _ in range(2):
            critic(torch.ones(rows, 23)).sum().backward()
    assert counted.get_total_flops() == rows * flops.critic_step_flops(*layers)


def test_networks_on_images_have_their_parameters(flops: Any):
    layers = flops.networks()["nature-cnn"]
    assert [layer.rows for layer in layers] == [400, 81, 49, 1, 1]
    assert layers[3].inputs == 3136
    # With the value's output: hts's parameters for Pong, of which the rest are biases.
    (both,) = flops.hts_layers({"network": "nature-cnn"})
    weights = sum(layer.inputs * layer.outputs for layer in both)
    assert weights + sum(layer.outputs for layer in both) == 1_687_719


@pytest.mark.slow
def test_a_real_path_makes_its_row_and_keeps_the_others(folder: Path):
    words = ["--only", "td3", "--minutes", "0.05", "--out", "limits.csv", "--page", "page.md"]
    command = [sys.executable, str(BENCHMARKS / "limits.py"), *words, "--chart", "limits.png"]
    subprocess.run(command, cwd=folder, check=True)
    with open(folder / "limits.csv", newline="") as lines:
        rows = {row["path"]: row for row in csv.DictReader(lines)}
    assert rows["es, Hopper-v5, 2 workers"]["ours"] == "12345.6"
    made = rows["td3, critic step, 256-256"]
    assert (made["ratio_min"], made["ratio_max"]) == ("", "")  # of one round
    near = pytest.approx(float(made["ours"]) / float(made["bound"]), rel=0.02)
    assert float(made["ratio"]) == near
    assert 0.0 < float(made["share"]) < 1.5
    assert made["command"] == "python benchmarks/limits.py --only td3 --minutes 0.05 " + " ".join(
        ["--out limits.csv --page page.md --chart limits.png"]
    )
    assert len([row for row in rows.values() if row["measured"] == "td3"]) == 2
    assert "td3, critic step, 256-256" in (folder / "page.md").read_text()
    assert (folder / "limits.png").read_bytes()[:4] == b"\x89PNG"
