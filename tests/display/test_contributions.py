"""Contribution of each kind of individual, read from a run folder."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from display.contribution_rows import HEADER, ROWS
from imageio import v2 as imageio

from drumline.display.contributions import (
    Individuals,
    contribution,
    contributions_figure,
    draw_contributions,
    read_individuals,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "aes-s0"
    folder.mkdir()
    (folder / "metrics.csv").write_text(HEADER + ROWS)
    return folder


def test_what_each_kind_did_by_hand(folder: Path):
    individuals = read_individuals(folder)
    es, rl = contribution(individuals, "ES"), contribution(individuals, "RL")
    assert (es.individuals, es.fitness, es.improvement_over_mean) == (2, 3.0, -1.0)
    assert (rl.individuals, rl.fitness, rl.improvement_over_mean) == (2, 7.0, 3.0)
    assert (es.accepted, rl.accepted, rl.distance_moved) == (0.5, 0.5, 6.0)
    assert (es.path_share, rl.path_share) == (0.25, 0.75)
    # Σ p max(d, 0): ES 0.5, RL 3.
    assert (es.gain_share, rl.gain_share) == pytest.approx((1 / 7, 6 / 7))
    assert (es.staleness_tells, rl.staleness_tells) == (1.5, 1.5)
    assert math.isnan(es.kept_gain), "no individual has ten before it and ten after"


def test_the_path_of_worse_individuals_is_a_part_of_their_kinds():
    told = made(norms=[1.0, 2.0, 3.0, 4.0], kinds=[0, 0, 1, 1], gains=[-5.0, 5.0, -1.0, 0.0])
    told.columns["accepted"][:] = 1.0
    es, rl = contribution(told, "ES"), contribution(told, "RL")
    assert (es.worse_path_share, rl.worse_path_share) == pytest.approx((0.1, 0.3))
    assert es.path_share + rl.path_share == 1.0


def test_a_move_that_was_taken_back_is_nobody_s_path():
    told = made(norms=[1.0, 2.0, 3.0], kinds=[0, 0, 1], gains=[5.0, -5.0, 1.0])
    told.columns["accepted"][:] = [1.0, 0.0, 1.0]
    assert (contribution(told, "ES").path_share, contribution(told, "RL").path_share) == (
        0.25,
        0.75,
    )


@pytest.mark.parametrize(("after", "kept"), [(0.0, 0.0), (50.0, 0.5), (100.0, 1.0)])
def test_a_fitness_that_nothing_follows_was_luck(after: float, kept: float):
    """Of ten ES individuals the fittest, 100 above the mean, has ten RL ones on both sides."""
    fitness = np.array([0.0] * 10 + [100.0] + [after] * 10 + [0.0] * 9)
    kinds = [1] * 10 + [0] + [1] * 10 + [0] * 9
    told = made(norms=[1.0] * 30, kinds=kinds, gains=fitness, fitness=fitness)
    assert contribution(told, "ES").kept_gain == kept


def made(**columns: Any) -> Individuals:
    arrays = {name: np.asarray(values, float) for name, values in columns.items()}
    size = arrays["kinds"].size
    renamed = {"norms": "update_norm", "kinds": "kind", "gains": "improvement_over_mean"}
    named = {renamed.get(name, name): values for name, values in arrays.items()}
    zero = dict.fromkeys(
        ("fitness", "step_size", "accepted", "distance_moved", "staleness_tells", "idle_after"),
        np.zeros(size),
    )
    counts = {"ES": int(np.sum(named["kind"] == 0)), "RL": int(np.sum(named["kind"] == 1))}
    return Individuals("made", {**zero, **named}, counts)


def test_what_a_worker_waited_belongs_to_the_individual_before(folder: Path):
    individuals = read_individuals(folder)
    np.testing.assert_array_equal(individuals.columns["idle_after"], [0.25, 0.75, np.nan, np.nan])
    assert contribution(individuals, "RL").idle_after == 0.75


def test_a_run_of_one_kind_and_without_steps_has_no_shares_of_the_other(folder: Path):
    rows = [row for row in ROWS.splitlines(keepends=True) if ",0.0,0.0,0.0,2.0," in row]
    (folder / "metrics.csv").write_text(HEADER + ROWS.splitlines(keepends=True)[3] + "".join(rows))
    individuals = read_individuals(folder)
    assert contribution(individuals, "RL").individuals == 0
    assert math.isnan(contribution(individuals, "RL").fitness)
    assert math.isnan(contribution(individuals, "ES").path_share)
    (legend,) = contributions_figure([individuals]).legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["ES: 1 individual, 0% moved the mean", "RL: none", "the mean's fitness"]


def test_a_picture_of_one_or_several_runs_is_drawn(folder: Path, tmp_path: Path):
    run = read_individuals(folder)
    for count in (1, 2):
        draw_contributions([run] * count, tmp_path / "c.png", x="wall_seconds")
        picture = imageio.imread(tmp_path / "c.png")
        assert picture.shape[:2] == (700, 1500)
        for color in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):
            assert np.sum(np.all(picture[..., :3] == color, axis=-1)) > 100


def test_a_title_says_what_the_picture_is_of(folder: Path):
    run = read_individuals(folder)
    assert contributions_figure([run], title="Two seeds").get_suptitle() == "Two seeds"
    assert contributions_figure([run]).get_suptitle().endswith("to the mean: aes-s0")


def test_a_run_of_another_method_is_named(folder: Path, tmp_path: Path):
    (folder / "metrics.csv").write_text(HEADER + ROWS.splitlines(keepends=True)[0])
    with pytest.raises(ValueError, match="has no individuals yet"):
        read_individuals(folder)
    (folder / "metrics.csv").write_text("update,env_steps,wall_seconds\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"lacks the columns kind.* --contributions is for runs of"
    ):
        read_individuals(folder)
    with pytest.raises(ValueError, match="no runs"):
        draw_contributions([], tmp_path / "c.png")
