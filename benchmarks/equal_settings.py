"""The same settings for Drumline and for Stable-Baselines3 in an interpreter of its own.

One dictionary for each case, in Drumline's words: `our_flags` types them, `stable_baselines.py`
translates them. What is named nowhere here has the same default on both sides (Adam's and RMSProp's
constants, orthogonal or uniform initial weights), or is listed as a difference in the docs.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from provenance import one_blas_thread

HERE = Path(__file__).resolve().parent

_ACTOR_CRITIC: dict[str, Any] = {
    "engine": "gymnasium",
    "discount": 0.99,
    "value_coefficient": 1.0,  # of ½ (V − R)²; Stable-Baselines3's 0.5 is of (V − R)²
    "entropy_coefficient": 0.0,
    "max_gradient_norm": 0.5,
    "hidden": (64, 64),
    "anneal": False,
}
_PPO: dict[str, Any] = {
    **_ACTOR_CRITIC,
    "gae_lambda": 0.95,
    "epochs": 10,
    "clip": 0.2,
    "clip_values": False,
    "normalize_advantages": True,
}
PPO_CARTPOLE: dict[str, Any] = {
    **_PPO,
    "num_envs": 8,
    "alpha": 32,
    "minibatches": 4,
    "learning_rate": 1e-3,
    "normalize_observations": False,
    "scale_rewards": False,
}
A2C_CARTPOLE: dict[str, Any] = {
    **_ACTOR_CRITIC,
    "num_envs": 8,
    "alpha": 5,
    "unroll": 5,
    "optimizer": "rmsprop",
    "learning_rate": 7e-4,
    "normalize_observations": False,
    "scale_rewards": False,
}
PPO_CONTROL: dict[str, Any] = {
    **_PPO,
    "num_envs": 16,
    "alpha": 128,
    "minibatches": 32,
    "learning_rate": 3e-4,
    "normalize_observations": True,
    "scale_rewards": True,
}
TD3_CONTROL: dict[str, Any] = {
    "engine": "gymnasium",
    "random_steps": 2_000,
    "replay_size": 1_000_000,
    "hidden": (256, 256),
    "learning_rate": 3e-4,
    "batch_size": 256,
    "discount": 0.99,
    "polyak": 0.005,
    "policy_delay": 2,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
    "exploration_noise": 0.1,
}


@dataclass(frozen=True)
class Peer:
    """Stable-Baselines3, by the interpreter that can import it."""

    python: Path

    def versions(self) -> str:
        """Return what it is made of, as provenance says it of ours."""
        return str(self._run("versions", {}))

    def learn(self, method: str, told: Mapping[str, Any]) -> Any:
        """Return the returns of the evaluation at each of `told`'s budgets."""
        return self._run("learn", {"method": method, **told})

    def update(self, method: str, told: Mapping[str, Any]) -> None:
        """Make one update from `told`'s file `given`, and write the weights to `taken`."""
        self._run("update", {"method": method, **told})

    def speed(self, method: str, told: Mapping[str, Any]) -> float:
        """Return env steps per second."""
        return float(self._run("speed", {"method": method, **told}))

    def seconds_to_score(self, method: str, told: Mapping[str, Any]) -> list[tuple[float, ...]]:
        """Return seconds, env steps and mean training return until `told`'s score or budget."""
        return [tuple(row) for row in self._run("seconds_to_score", {"method": method, **told})]

    def _run(self, what: str, told: Mapping[str, Any]) -> Any:
        script = str(HERE / "stable_baselines.py")
        # Ours is never on its path: what it imports are its own packages alone.
        environment = {k: v for k, v in one_blas_thread().items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.python), script, what, json.dumps(told)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return json.loads(done.stdout.splitlines()[-1])


def our_flags(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings as they are typed after `drumline train METHOD ENV`."""
    words: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple):
            words += [f"--{flag}", *map(str, value)]
        else:
            words.append(f"--{flag}={value}")
    return words


def peer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the peer is told for the resolved settings of a run of `ppo`.

    Raises `ValueError` where the peer has no such setting.
    """
    wanted = {
        "anneal": False,
        "anneal_clip": False,
        "optimizer": "adam",
        "target_kl": 0.0,
        "precision": "fp32",
        "final_entropy_coefficient": None,
    }
    for name, value in wanted.items():
        if config[name] != value:
            raise ValueError(f"the peer is not told {name} = {config[name]!r}, only {value!r}")
    if config["network"] not in ("mlp", "nature-cnn"):
        raise ValueError(f"the peer has no network {config['network']}")
    told = {name: config[name] for name in ("env", *_PPO, *_OF_TASKS) if name in config}
    if config["network"] == "nature-cnn":
        # Gymnasium's name of the game; the wrappers are those that EnvPool's Atari has.
        told["images"], told["env"] = True, config["env"].replace("-v5", "NoFrameskip-v4")
    return {name: value for name, value in told.items() if name not in ("engine", "anneal")}


_OF_TASKS = (
    *("num_envs", "alpha", "minibatches", "learning_rate", "seed"),
    *("normalize_observations", "scale_rewards"),
)


def torch_version() -> str:
    """Return the version of the torch that Drumline learns with."""
    return f"torch={version('torch')}"
