"""One update of ours and of Stable-Baselines3's from the same weights, data and order of rows.

Prints for each parameter how far it moved, and how far the two ended apart, in shares of that.

    python benchmarks/learning/peer_update.py --peer-python PEER/bin/python
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from equal_settings import A2C_CARTPOLE, PPO_CARTPOLE, PPO_CONTROL, Peer

from drumline import seeding
from drumline.policies.actions import sample
from drumline.policies.actor_critic import build_network
from drumline.policies.inference import InferenceSpec
from drumline.recipes.a2c import A2C
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.learners import make_learner
from drumline.recipes.ppo import PPO
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.types import Rollout

# Normalisation follows other clocks on the two sides, so it is left out.
_PLAIN = {"normalize_observations": False, "scale_rewards": False}
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "CartPole-v1 ppo": ("ppo", PPO, PPO_CARTPOLE),
    "HalfCheetah-v5 ppo": ("ppo", PPO, {**PPO_CONTROL, **_PLAIN}),
    "CartPole-v1 a2c": ("a2c", A2C, A2C_CARTPOLE),
}


def drawn(parts: ActorCriticParts, published: dict[str, np.ndarray]) -> Rollout:
    """Return an interval of random observations and rewards, acted in by the policy itself."""
    shape, head = parts.shape, parts.network.head
    rng = np.random.default_rng(0)
    steps, count = shape.alpha, shape.environments
    size = (steps + 1, count, *shape.observation_shape)
    observations = rng.standard_normal(size, np.float32).astype(shape.observation_dtype)
    inference = InferenceSpec(parts.network, "fp32")()
    inference.load(published)
    actions, log_probs, values = [], [], []
    for t in range(steps):
        outputs, value = inference(observations[t])
        values.append(value.copy())
        noise_size = (count, head.noise_size)
        normal = head.kind == "gaussian"
        noise = rng.standard_normal(noise_size) if normal else rng.random(noise_size)
        action, log_prob = sample(head, outputs.copy(), noise.astype(np.float32))
        actions.append(action)
        log_probs.append(log_prob)
    terminated = rng.random((steps, count)) < 0.03
    truncated = (rng.random((steps, count)) < 0.02) & ~terminated
    final_steps, final_environments = np.nonzero(truncated)
    final = rng.standard_normal((len(final_steps), *shape.observation_shape), np.float32)
    return Rollout(
        0,
        observations,
        np.stack(actions),
        rng.standard_normal((steps, count), np.float32) + 1,
        terminated,
        truncated,
        np.stack(log_probs),
        np.stack(values),
        final_steps.astype(np.int32),
        final_environments.astype(np.int64),
        final.astype(shape.observation_dtype),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", type=Path, required=True)
    options = parser.parse_args()
    peer = Peer(options.peer_python)
    for name, (method, config_type, settings) in CASES.items():
        env = name.split()[0]
        config = config_type(env=env, **settings)
        parts = parts_of(config)
        learner = make_learner(parts, lambda: None)
        before = {key: array.copy() for key, array in learner.published().items()}
        rollout = drawn(parts, before)
        learner.update(rollout, before)
        rows = np.arange(config.steps_per_update)
        order = [
            seeding.generator(config.seed, "shuffle", 0, epoch, 0).permutation(rows)
            for epoch in range(settings.get("epochs", 0))
        ]
        named = list(build_network(parts.network).named_parameters())
        ours, start = learner.published()["parameters"], before["parameters"]
        cuts = np.cumsum([parameter.numel() for _, parameter in named])[:-1]
        with tempfile.TemporaryDirectory() as place:
            given, taken = Path(place) / "given.npz", Path(place) / "taken.npz"
            weights = {
                f"weight {key}": part.reshape(tuple(parameter.shape))
                for (key, parameter), part in zip(named, np.split(start, cuts), strict=True)
            }
            np.savez(given, order=np.array(order), **weights, **_arrays(rollout))
            told = {"env": env, "seed": 0, "given": str(given), "taken": str(taken), **settings}
            peer.update(method, told)
            with np.load(taken) as theirs:
                for key, mine, was in zip(
                    (key for key, _ in named),
                    np.split(ours, cuts),
                    np.split(start, cuts),
                    strict=True,
                ):
                    way = float(np.linalg.norm(mine - was))
                    apart = float(np.linalg.norm(mine - theirs[key].ravel()))
                    print(f"{name:20} {key:16} moved {way:.2e}, apart {apart / way:.1e} of that")


def _arrays(rollout: Rollout) -> dict[str, np.ndarray]:
    return {key: array for key, array in rollout._asdict().items() if isinstance(array, np.ndarray)}


if __name__ == "__main__":
    main()
