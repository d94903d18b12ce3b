"""The settings that methods of evolution and gradient steps share, and what is refused of them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_outside_unit
from drumline.recipes.virtual_costs import GradientRate, gradient_work
from drumline.schedules.event_order import VirtualCosts


@dataclass(frozen=True)
class TrainingConfig:
    """What every run of a population has. Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    frame_skip: int = 1
    """How often each action is repeated."""
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the hidden layers of actor (tanh) and critics (leaky ReLU)."""
    evaluate_every: int = 20
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""

    def __post_init__(self) -> None:
        refuse_nonpositive(self, "total_steps", "frame_skip", "evaluate_episodes")
        refuse_negative(self, "evaluate_every")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"--hidden needs layers of 1 or more, got {self.hidden}")


@dataclass(frozen=True)
class OffPolicyConfig(TrainingConfig):
    """A population with a replay that gradient steps draw from."""

    mean_evaluations: int = 5
    """Episodes of the mean beside the population; 0: none."""
    warmup_steps: int = 10_000
    """Env steps before anything is learned from the replay."""
    replay_size: int = 200_000
    """Transitions that are kept."""
    batch_size: int = 256
    """Transitions per gradient step."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actors and critics."""
    discount: float = 0.99
    """γ."""
    polyak: float = 0.005
    """Share of the critics that enters their targets at each step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the forward and backward passes of gradient steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_nonpositive(self, "replay_size", "batch_size", "learning_rate")
        refuse_negative(self, "mean_evaluations", "warmup_steps")
        refuse_outside_unit(self, "discount", "polyak")
        if self.replay_size < self.batch_size:
            raise ValueError(
                f"--replay-size {self.replay_size} is smaller than --batch-size {self.batch_size}"
            )


@dataclass(frozen=True)
class RefiningConfig(OffPolicyConfig):
    """A population of which some individuals are refined by TD3's steps."""

    target_noise: float = 0.2
    """Std of the noise on target actions."""
    target_noise_clip: float = 0.5
    """Largest noise on target actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_negative(self, "target_noise", "target_noise_clip")

    @property
    def actor_hidden(self) -> tuple[int, ...]:
        """Return the sizes of the actor's hidden layers: those of the critics."""
        return self.hidden


@dataclass(frozen=True)
class ClockConfig:
    """Logical workers under a virtual clock: who is done first decides what is learned."""

    concurrency: int = 5
    """Logical workers: individuals that live at the same time."""
    clock: Literal["virtual", "wall"] = "virtual"
    """virtual: results are handled by virtual time, the same on every layout; wall: as they
    arrive."""
    replay_events: str = ""
    """With --clock wall: handle results in the order of this events.jsonl of an earlier run."""
    env_step_cost: int = 125_000
    """Virtual nanoseconds of an env step."""
    gradient_overhead_cost: int = 750_000
    """Virtual nanoseconds of a gradient step besides its arithmetic."""
    multiply_add_cost: int = 30
    """Virtual picoseconds of each multiply-add of a gradient step."""
    actor_step_cost: int = 0
    """Virtual nanoseconds of an actor's gradient step; 0: by networks and batch, from the two
    above."""
    critic_step_cost: int = 0
    """Virtual nanoseconds of a critics' gradient step; 0: likewise."""
    least_env_steps: int = 1
    """No episode is shorter (1000 for HalfCheetah): results can be handled the sooner."""

    def __post_init__(self) -> None:
        refuse_nonpositive(self, "concurrency", "least_env_steps")
        refuse_nonpositive(self, "env_step_cost", "multiply_add_cost")
        refuse_negative(self, "gradient_overhead_cost", "actor_step_cost", "critic_step_cost")
        if self.replay_events and self.clock != "wall":
            raise ValueError("--replay-events goes with --clock wall: a virtual clock needs no log")

    @property
    def no_promise(self) -> str:
        """Return why this run cannot be repeated; empty: it can."""
        if self.clock == "virtual" or self.replay_events:
            return ""
        return "--clock wall handles results as they arrive; verify repeats it from events.jsonl"

    def resolved(self) -> Self:
        """Return the config with the log's whole path, so that a resume finds it from anywhere."""
        if not self.replay_events:
            return self
        path = Path(self.replay_events).resolve()
        if not path.is_file():
            raise ValueError(f"--replay-events {self.replay_events}: there is no such file")
        return replace(self, replay_events=str(path))

    def costs(
        self, actor_sizes: tuple[int, ...], critic_sizes: tuple[int, ...], batch_size: int
    ) -> VirtualCosts:
        """Return what steps take in virtual time."""
        rate = GradientRate(self.gradient_overhead_cost, self.multiply_add_cost)
        work = gradient_work(actor_sizes, critic_sizes, 2, batch_size)
        return VirtualCosts(
            self.env_step_cost,
            self.actor_step_cost or rate.step(work.actor),
            self.critic_step_cost or rate.step(work.critic),
        )


CLOCKS: dict[str, dict[str, int]] = {
    "InvertedPendulum-v5": {"env_step_cost": 90_000},
    "Pendulum-v1": {"env_step_cost": 45_000, "least_env_steps": 200},
    "CartPole-v1": {"env_step_cost": 40_000},
    "LunarLander-v3": {"env_step_cost": 80_000},
    "HalfCheetah-v5": {"least_env_steps": 1000},
    "Hopper-v5": {},
    "Walker2d-v5": {},
    "Swimmer-v5": {"least_env_steps": 1000},
    "Ant-v5": {"env_step_cost": 400_000},
    "Humanoid-v5": {"env_step_cost": 550_000},
}
"""What the clock's presets say of environments."""
