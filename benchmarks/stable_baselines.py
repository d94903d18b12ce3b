"""Stable-Baselines3 in its own interpreter: told settings in Drumline's words, it prints JSON.

PEER/bin/python benchmarks/stable_baselines.py learn '{"method": "ppo", …}'
"""

import importlib
import json
import platform
import sys
import time
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import A2C, PPO, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecNormalize,
)

_EVALUATION_SEED = 10_000_000


def versions() -> str:
    names = ("stable-baselines3", "torch", "numpy", "gymnasium", "mujoco")
    words = [f"python={platform.python_version()}"]
    return " ".join([*words, *(f"{name}={version(name)}" for name in names)])


def learn(told: dict[str, Any]) -> list[list[float]]:
    model, normalizer = build(told)
    made, measured = 0, []
    for budget in told["budgets"]:
        model.learn(budget - made, reset_num_timesteps=made == 0)
        made = model.num_timesteps
        if made != budget:
            raise ValueError(f"{made} env steps were made where {budget} were asked for")
        measured.append(evaluate(model, normalizer, told))
    return measured


def evaluate(model: Any, normalizer: VecNormalize | None, told: dict[str, Any]) -> list[float]:
    """Return the returns of episodes with the most likely action, in a fresh environment."""
    environment, returns = gymnasium.make(told["env"]), []
    for episode in range(told["evaluate_episodes"]):
        seed = _EVALUATION_SEED + 1000 * told["seed"] + episode
        observation, total, over = environment.reset(seed=seed)[0], 0.0, False
        while not over:
            seen = normalizer.normalize_obs(observation) if normalizer else observation
            action, _ = model.predict(seen, deterministic=True)
            observation, reward, terminated, truncated, _ = environment.step(action)
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    environment.close()
    return returns


def update(told: dict[str, Any]) -> str:
    """Make one update from weights, an interval and the order of its rows, all given in a file."""
    model, _ = build(told)
    model.set_logger(configure(None, []))
    given = dict(np.load(told["given"]))
    named = {key[7:]: array for key, array in given.items() if key.startswith("weight ")}
    parameters = {name: _parameter(model.policy, name, len(told["hidden"])) for name in named}
    for name, array in named.items():
        parameters[name].data.copy_(torch.from_numpy(array))
    buffer, steps, count = model.rollout_buffer, *given["rewards"].shape
    ended = given["terminated"] | given["truncated"]
    with torch.no_grad():
        if len(given["final_observations"]):
            final = model.policy.predict_values(_rows(given["final_observations"]))
            cut = (given["final_steps"], given["final_environments"])
            given["rewards"][cut] += told["discount"] * final.numpy()[:, 0]
        starts = np.ones(count, bool)
        for t in range(steps):
            seen, actions = given["observations"][t], given["actions"][t]
            values, log_probs, _ = model.policy.evaluate_actions(
                _rows(seen), torch.from_numpy(actions)
            )
            row = given["rewards"][t]
            buffer.add(seen, actions.reshape(count, -1), row, starts, values, log_probs)
            starts = ended[t]
        last = model.policy.predict_values(_rows(given["observations"][-1]))
    buffer.compute_returns_and_advantage(last_values=last, dones=ended[-1])
    # Its rows are counted environment by environment, ours step by step.
    orders = iter([(rows % count) * steps + rows // count for rows in given["order"]])
    np.random.permutation = lambda size: next(orders, np.arange(size))
    model.train()
    np.savez(told["taken"], **{name: p.detach().numpy() for name, p in parameters.items()})
    return "written"


def _rows(observations: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(observations.astype(np.float32))


def _parameter(policy: Any, name: str, layers: int) -> Any:
    """Return the parameter that ours calls `policy.2.weight`, say."""
    if name == "log_std":
        return policy.log_std
    trunk, number, kind = name.split(".")
    if int(number) == 2 * layers:
        return getattr({"policy": policy.action_net, "value": policy.value_net}[trunk], kind)
    extractor = policy.mlp_extractor
    stack = {"policy": extractor.policy_net, "value": extractor.value_net}[trunk]
    return getattr(stack[int(number)], kind)


class Rollouts(BaseCallback):
    """Notes when each rollout begins, and stops after so many seconds."""

    def __init__(self, seconds: float, skipped: int):
        super().__init__()
        self.seconds, self.skipped = seconds, skipped
        self.begun: list[tuple[float, int]] = []

    def _on_rollout_start(self) -> None:
        self.begun.append((time.perf_counter(), self.num_timesteps))

    def _on_step(self) -> bool:
        if len(self.begun) < self.skipped + 2:
            return True
        return self.begun[-1][0] - self.begun[self.skipped][0] < self.seconds


def speed(told: dict[str, Any]) -> float:
    """Return env steps per second of whole intervals, learning included."""
    model, _ = build(told)
    rollouts = Rollouts(told["seconds"], skipped=2)
    model.learn(10**9, callback=rollouts)
    (began, before), (ended, after) = rollouts.begun[rollouts.skipped], rollouts.begun[-1]
    return (after - before) / (ended - began)


class Reached(BaseCallback):
    """Notes the mean return of the latest 100 episodes after each rollout; stops at a score.

    The score counts where the mean of the rollout after it is short of it by a tenth at most.
    """

    def __init__(self, score: float, began: float):
        super().__init__()
        self.score, self.began = score, began
        self.curve: list[tuple[float, int, float]] = []

    def _on_rollout_start(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        if len(returns) == 100:
            seconds = time.perf_counter() - self.began
            self.curve.append((seconds, self.num_timesteps, float(np.mean(returns))))

    def _on_step(self) -> bool:
        if len(self.curve) < 2:
            return True
        before, now = self.curve[-2][2], self.curve[-1][2]
        return not (before >= self.score and now >= self.score - 0.1 * abs(self.score))


def seconds_to_score(told: dict[str, Any]) -> list[tuple[float, int, float]]:
    """Return seconds, env steps and mean return of every rollout until a score or a budget.

    The seconds count from before the environments are made. Nothing is evaluated.
    """
    callback = Reached(told["score"], time.perf_counter())
    model, _ = build(told)
    model.learn(told["budget"], callback=callback)
    callback._on_rollout_start()
    return callback.curve


def build(told: dict[str, Any]) -> tuple[Any, VecNormalize | None]:
    torch.set_num_threads(told.get("threads", 1))
    hidden = list(told["hidden"])
    if told["method"] == "td3":
        return _td3(told, hidden), None
    kind = SubprocVecEnv if told.get("processes") else DummyVecEnv
    make = make_vec_env
    if told.get("images"):
        gymnasium.register_envs(importlib.import_module("ale_py"))
        make = make_atari_env
    envs: Any = make(told["env"], n_envs=told["num_envs"], seed=told["seed"], vec_env_cls=kind)
    if told.get("images"):
        envs = VecFrameStack(envs, n_stack=4)
    normalizer = None
    if told["normalize_observations"] or told["scale_rewards"]:
        envs = normalizer = VecNormalize(
            envs,
            norm_obs=told["normalize_observations"],
            norm_reward=told["scale_rewards"],
            gamma=told["discount"],
        )
    shared = {
        "n_steps": told["alpha"],
        "learning_rate": told["learning_rate"],
        "gamma": told["discount"],
        "vf_coef": told["value_coefficient"] / 2,
        "ent_coef": told["entropy_coefficient"],
        "max_grad_norm": told["max_gradient_norm"],
        "policy_kwargs": {} if told.get("images") else {"net_arch": {"pi": hidden, "vf": hidden}},
        "seed": told["seed"],
        "device": "cpu",
    }
    if told["method"] == "a2c":
        if told["unroll"] != told["alpha"] or told["optimizer"] != "rmsprop":
            raise ValueError("one unroll an update and RMSProp are what is compared")
        return A2C("MlpPolicy", envs, **shared), normalizer
    model = PPO(
        "CnnPolicy" if told.get("images") else "MlpPolicy",
        envs,
        batch_size=told["num_envs"] * told["alpha"] // told["minibatches"],
        n_epochs=told["epochs"],
        gae_lambda=told["gae_lambda"],
        clip_range=told["clip"],
        clip_range_vf=told["clip"] if told["clip_values"] else None,
        normalize_advantage=told["normalize_advantages"],
        **shared,
    )
    return model, normalizer


def _td3(told: dict[str, Any], hidden: list[int]) -> TD3:
    environment = gymnasium.make(told["env"])
    size = environment.action_space.shape[0]
    return TD3(
        "MlpPolicy",
        environment,
        learning_rate=told["learning_rate"],
        buffer_size=told["replay_size"],
        learning_starts=told["random_steps"],
        batch_size=told["batch_size"],
        tau=told["polyak"],
        gamma=told["discount"],
        train_freq=1,
        gradient_steps=1,
        action_noise=NormalActionNoise(
            np.zeros(size), np.full(size, told["exploration_noise"], np.float32)
        ),
        policy_delay=told["policy_delay"],
        target_policy_noise=told["target_noise"],
        target_noise_clip=told["target_noise_clip"],
        policy_kwargs={"net_arch": hidden},
        seed=told["seed"],
        device="cpu",
    )


if __name__ == "__main__":
    told = json.loads(sys.argv[2])
    actions = {
        "versions": lambda told: versions(),
        "learn": learn,
        "update": update,
        "speed": speed,
        "seconds_to_score": seconds_to_score,
    }
    print(json.dumps(actions[sys.argv[1]](told)))
