"""P-CEM-RL with serial and parallel critic: its clocks, its presets, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whole_runs import SMALL_P_CEM_RL

from drumline.api.run import train
from drumline.commands.verify import verify_again
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.training.layout import SteadyLayout

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = SteadyLayout(pool="inline", tensorboard=False)
PARALLEL = replace(SMALL_P_CEM_RL, critic="parallel")
CONFIGS = {"serial": SMALL_P_CEM_RL, "parallel": PARALLEL}


def critic_steps(tmp_path: Path, **changes: Any) -> list[tuple[float, float]]:
    run = train(replace(PARALLEL, **changes), layout=INLINE, out=tmp_path / repr(changes))
    return [(row["critic_steps"], row["env_steps"]) for row in run.metrics]


def test_a_parallel_critic_takes_as_many_steps_as_its_cost_allows_or_as_env_steps(tmp_path: Path):
    quick = {"actor_step_cost": 100_000, "total_steps": 150}
    cheap = critic_steps(tmp_path, critic_step_cost=40_000, **quick)
    dear = critic_steps(tmp_path, critic_step_cost=100_000_000, **quick)
    assert cheap[-1][0] > cheap[-1][1] > dear[-1][0]
    throttled = critic_steps(tmp_path, critic_step_cost=40_000, throttle_critic=True, **quick)
    assert all(done < there + PARALLEL.critic_batches for done, there in throttled)
    assert throttled[-1][0] > 0


def test_a_run_by_the_wall_clock_is_repeated_from_its_log_of_events(tmp_path: Path):
    run = train(replace(PARALLEL, clock="wall"), layout=INLINE, out=tmp_path / "run")
    assert str(run.folder.document["promise"]).startswith("no promise: --clock wall")
    assert verify_again(run.folder, 10**9, INLINE) == (len(run.metrics), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_on_three_workers_by_the_wall_clock_is_repeated_inline(tmp_path: Path, name: str):
    layout = SteadyLayout(workers=3, tensorboard=False)
    run = train(replace(CONFIGS[name], clock="wall"), layout=layout, out=tmp_path / "run")
    assert verify_again(run.folder, 10**9, INLINE) == (len(run.metrics), None)


@pytest.mark.parametrize(
    ("env", "critic"),
    [
        ("CartPole-v1", "serial"),
        ("Pendulum-v1", "serial"),
        ("InvertedPendulum-v5", "serial"),
        ("InvertedPendulum-v5", "parallel"),
        ("Hopper-v5", "serial"),
        *(  # cem-rl's own, which run with it
            pytest.param(f"{name}-v5", "serial", marks=pytest.mark.slow)
            for name in ("HalfCheetah", "Walker2d", "Swimmer", "Ant", "Humanoid")
        ),
    ],
)
def test_every_preset_runs_two_generations(env: str, critic: Any, tmp_path: Path):
    scale = 0.01 if env.startswith(("HalfCheetah", "Swimmer", "Ant")) else 0.5
    small: dict[str, Any] = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    small |= {"population_size": 2, "elites": 1, "refined_members": 1, "warmup_steps": 0}
    small |= {"batch_size": 8, "actor_steps_scale": scale}
    small |= {"critic_steps_scale": scale} if critic == "serial" else {}
    small |= {"critic": critic, "critic_batches": 4, "mean_evaluations": 0}
    small |= {"critic_step_cost": 1_000_000}
    config = PCEMRL(env=env, **{**PCEMRL.PRESETS[env], **small})
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert run.metrics[1]["critic_steps"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"concurrency": 0}, "--concurrency must be above 0, got 0"),
        ({"critic_batches": 0}, "--critic-batches must be above 0, got 0"),
        ({"replay_events": "events.jsonl"}, "--replay-events goes with --clock wall"),
        ({"throttle_critic": True}, "--throttle-critic goes with --critic parallel"),
        (
            {"critic": "parallel", "critic_steps_scale": 2.0},
            "--critic-steps-scale 2.0 goes with --critic serial",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL_P_CEM_RL, **fields)
