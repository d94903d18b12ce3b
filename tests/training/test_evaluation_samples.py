"""`--evaluate-sample` draws the actions of evaluations, as Atari's presets do."""

from dataclasses import replace
from pathlib import Path

import pytest
from typed_commands import drumline as command

import drumline
from drumline.recipes.environment_families import ATARI_IDS, FOOTBALL_IDS
from drumline.recipes.hts import HTS
from drumline.recipes.methods import METHODS
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import RotationLayout

SMALL = HTS(
    env="CartPole-v1",
    engine="gymnasium",
    hidden=(4,),
    total_steps=64,
    num_envs=4,
    alpha=4,
    minibatches=1,
    evaluate_every=2,
    evaluate_episodes=4,
)


def test_drawn_evaluations_have_the_same_bits_on_every_layout_and_change_no_training(
    tmp_path: Path,
):
    likeliest = drumline.train(SMALL, workers="inline", out=tmp_path / "likeliest")
    sampled = replace(SMALL, evaluate_sample=True)
    here = drumline.train(sampled, workers="inline", out=tmp_path / "here")
    there = drumline.train(sampled, layout=RotationLayout(executors=2), out=tmp_path / "there")
    evaluations = [run.folder.evaluations_csv.read_bytes() for run in (likeliest, here, there)]
    assert evaluations[0] != evaluations[1] == evaluations[2]
    for name in ("fingerprints.csv", "episodes.csv"):
        assert len({(run.path / name).read_bytes() for run in (likeliest, here, there)}) == 1
    said = command("evaluate", "here", "--episodes=2", cwd=tmp_path)
    assert "actions drawn from the distribution" in said.stdout, said.stderr
    said = command("evaluate", "here", "--episodes=2", "--deterministic", cwd=tmp_path)
    assert "actions" not in said.stdout, said.stderr


@pytest.mark.parametrize("method", ["hts", "a2c", "ppo", "impala"])
def test_presets_of_atari_draw_the_actions_of_evaluations_and_others_do_not(method: str):
    assert len(ATARI_IDS) == len(set(ATARI_IDS)) == 2 * 57
    assert all(METHODS[method].preset(env)["evaluate_sample"] is True for env in ATARI_IDS)
    for env in (*FOOTBALL_IDS, "HalfCheetah-v5", "CartPole-v1"):
        assert not METHODS[method].preset(env).get("evaluate_sample", False)


def test_an_untrained_policy_ends_its_game_of_breakout(tmp_path: Path):
    pytest.importorskip("envpool")
    untrained = replace(
        METHODS["hts"].made("Breakout-v5"),
        num_envs=2,
        alpha=4,
        total_steps=8,
        minibatches=1,
        epochs=1,
        evaluate_every=0,
        evaluate_episodes=1,
    )
    run = drumline.train(untrained, workers="inline", out=tmp_path / "run")
    (row,) = read_evaluations(run.folder.evaluations_csv)
    assert row.lengths[0] < 5_000  # with the most likely action: 27,000, no ball is served
