"""Spaces that are legitimate and rare: trained, evaluated and drawn from as any other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drumline.api.run import train
from drumline.recipes.aes import AES
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.recipes.impala import Impala
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runs.policy_files import read_policy

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ACTOR_CRITIC: dict[str, Any] = {
    "total_steps": 64,
    "num_envs": 2,
    "alpha": 8,
    "hidden": (4,),
    "evaluate_every": 2,
    "evaluate_episodes": 2,
}


@pytest.mark.parametrize(
    "name",
    [
        *("byte_rows", "byte_grids", "shifted_choices", "narrow_doubles", "single_numbers"),
        *("own_choices", "own_pairs", "own_forces", "small_pairs", "cubes"),
    ],
)
@pytest.mark.parametrize("method", [PPO, Impala])
def test_actor_critics_learn_and_act(method: Any, name: str, tmp_path: Path):
    more = {"epochs": 1, "minibatches": 2} if method is PPO else {"batch": 1}
    config = method(env=f"lane_environments:{name}", **ACTOR_CRITIC, **more)
    run = train(config, workers="inline", out=tmp_path / "run")
    assert [row["update"] for row in run.metrics] == [1.0, 2.0, 3.0, 4.0] or method is Impala
    for sample in (False, True):
        assert run.evaluate(3, sample=sample).returns == (5.0, 5.0, 5.0)
    if name == "small_pairs":
        actions = run.policy.to_torch()(torch.zeros(2, 3)).numpy()
        assert actions.dtype == run.policy.act(np.zeros(3, np.float32)).dtype == np.int8


def test_large_observations_have_room_for_every_episode_that_a_time_limit_cuts(tmp_path: Path):
    config = PPO(
        env="lane_environments:wide_and_short",
        **{**ACTOR_CRITIC, "num_envs": 16, "alpha": 30, "total_steps": 960},
        epochs=1,
        minibatches=2,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    assert run.metrics[-1]["episodes"] == 16 * (60 // 4)


@pytest.mark.parametrize(
    "env",
    [
        "lane_environments:byte_rows",
        "lane_environments:byte_grids",
        "lane_environments:filmed",
        "pixel_environment:make",
    ],
)
def test_bytes_that_cannot_be_normalised_by_moments_are_refused(env: str, tmp_path: Path):
    config = PPO(env=env, normalize_observations=True)
    with pytest.raises(ValueError, match=r"bytes, which are divided by 255.*--no-normalize"):
        train(config, workers="inline", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("env", "kind"), [("without_observations", "observations"), ("without_actions", "actions")]
)
@pytest.mark.parametrize("method", [ES, AES, TD3, PPO, Impala])
def test_spaces_without_a_number_are_refused(method: Any, env: str, kind: str, tmp_path: Path):
    said = rf"^lane_environments:{env} has {kind} of shape \[0\], which hold no number"
    with pytest.raises(ValueError, match=said):
        train(method(env=f"lane_environments:{env}"), workers="inline", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["own_choices", "own_forces"])
def test_a_search_takes_spaces_of_ones_own_kinds(name: str, tmp_path: Path):
    config = ES(
        env=f"lane_environments:{name}",
        total_steps=40,
        population_size=4,
        hidden=(4,),
        noise_table_size=4096,
        evaluate_episodes=2,
    )
    assert train(config, workers="inline", out=tmp_path / "run").evaluate(2).returns == (5.0, 5.0)


@pytest.mark.parametrize(
    "config",
    [
        ES(
            env="lane_environments:narrow_doubles",
            total_steps=60,
            population_size=4,
            hidden=(4,),
            noise_table_size=4096,
            std=10.0,
            evaluate_episodes=2,
        ),
        TD3(
            env="lane_environments:narrow_doubles",
            total_steps=40,
            random_steps=20,
            steps_per_update=20,
            replay_size=40,
            batch_size=4,
            hidden=(4,),
            exploration_noise=10.0,
            evaluate_episodes=2,
        ),
    ],
    ids=lambda config: type(config).__name__,
)
def test_rounding_puts_no_action_outside_of_its_space(config: Any, tmp_path: Path):
    run = train(config, workers="inline", out=tmp_path / "run")
    assert run.evaluate(2).returns == (5.0, 5.0)


OFF_POLICY: dict[str, Any] = {
    "env": "lane_environments:cut_at_once",
    "replay_size": 60,
    "batch_size": 4,
    "hidden": (4,),
    "evaluate_episodes": 2,
}


@pytest.mark.parametrize(
    "config",
    [
        TD3(**OFF_POLICY, total_steps=300, random_steps=20, steps_per_update=50),
        AES(**OFF_POLICY, total_steps=150, warmup_steps=20, critic_batches=10, mean_evaluations=0),
    ],
    ids=lambda config: type(config).__name__,
)
def test_episodes_that_are_cut_whenever_the_environment_likes_are_kept(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("drumline.recipes.learned_actor._LONGEST", 20)  # the replay's slack
    run = train(config, workers="inline", out=tmp_path / "run")
    assert run.metrics[-1]["env_steps"] >= config.total_steps
    assert run.evaluate(2).lengths == (1, 1)


def test_ars_is_blind_to_what_never_varies(tmp_path: Path):
    config = ARS(
        env="lane_environments:half_constant",
        total_steps=60,
        population_size=4,
        top_directions=2,
        noise_table_size=4096,
        evaluate_episodes=2,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    varying, constant = read_policy(run.folder, "last").tensors["observation_inverse_std"]
    assert varying > 0
    assert constant == 0


def test_rewards_are_scaled_or_clipped_and_not_both():
    with pytest.raises(ValueError, match=r"--scale-rewards --no-clip-rewards"):
        PPO(env="CartPole-v1", scale_rewards=True, clip_rewards=True)
