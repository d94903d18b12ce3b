"""TD3 as a recipe: its config, its presets and its parts."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from drumline.buffers.replay import Replay
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.spec import PolicySpec
from drumline.recipes.first_policies import described_critics
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refused_values import (
    refuse_empty_layers,
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unknown_actor,
    refuse_unusable_device,
)
from drumline.recipes.shared_fields import EnvironmentFields
from drumline.schedules.single_stream import SingleStreamPlan, StreamLearner
from drumline.training.layout import Layout, StreamLayout
from drumline.training.stream_run import StreamRecipe

_SMALL = {
    "steps_per_update": 500,
    "random_steps": 1_000,
    "replay_size": 50_000,
    "learning_rate": 1e-3,
}


@dataclass(frozen=True)
class TD3(EnvironmentFields):
    """TD3 (Fujimoto et al. 2018), also for discrete actions. Every field is an argument of the
    result."""

    frame_skip: int = 1
    """Frames for which each action is repeated."""
    steps_per_update: int = 1000
    """Env steps per row of metrics.csv; checkpoints lie between two of them."""
    random_steps: int = 25_000
    """Env steps with random actions before anything is learned."""
    replay_size: int = 1_000_000
    """Transitions that are kept."""
    hidden: tuple[int, ...] = (256, 256)
    """Sizes of the hidden layers of actor and critics."""
    network: str = "mlp"
    """mlp, or package.module:Class of a torch.nn.Module of your own, for the actor."""
    scale_bytes: bool = True
    """Divide observations of bytes by 255."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of the actor's hidden layers."""
    critic_activation: Literal["tanh", "relu", "leaky-relu"] = "relu"
    """Activation of the critics' hidden layers."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor and critics."""
    batch_size: int = 256
    """Transitions per gradient step."""
    discount: float = 0.99
    """Discount γ per env step."""
    polyak: float = 0.005
    """Share of the parameters that enters the target networks at each actor step."""
    critics: Literal[1, 2] = 2
    """Critics; 1 is DDPG's (with --target-noise 0 --policy-delay 1, DDPG)."""
    policy_delay: int = 2
    """Critic steps per actor step."""
    target_noise: float = 0.2
    """Std of the noise on target actions."""
    target_noise_clip: float = 0.5
    """Largest noise on target actions."""
    scale_target_noise: bool = True
    """Whether target noise and its limit are in units of half the action range, as in the author's
    code."""
    exploration_noise: float = 0.1
    """Std of the noise on actions, in units of half the action range; discrete: ε."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the forward and backward passes."""
    device: str = "cpu"
    """Device of gradient steps: cpu, cuda or cuda:N. Episodes stay on the cores. On GPU models
    other than those of docs/determinism.md a run carries no promise."""
    learner_threads: int = 1
    """Threads of the learner's tensor operations."""
    evaluate_every: int = 10
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Repeat the first update's actions in another environment and stop if its bits differ."""

    LAYOUT: ClassVar[type[Layout]] = StreamLayout
    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": {**_SMALL, "total_steps": 20_000, "hidden": (64, 64)},
        "LunarLander-v3": {**_SMALL, "total_steps": 100_000, "replay_size": 100_000},
        "Pendulum-v1": {**_SMALL, "total_steps": 20_000},
        "InvertedPendulum-v5": {**_SMALL, "total_steps": 20_000},
        "InvertedDoublePendulum-v5": {**_SMALL, "total_steps": 50_000},
        **{
            f"{name}-v5": {"total_steps": 1_000_000}
            for name in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid")
        },
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_device(self)
        positive = ["total_steps", "frame_skip", "steps_per_update", "replay_size", "batch_size"]
        positive += ["learning_rate", "policy_delay", "learner_threads", "evaluate_episodes"]
        refuse_nonpositive(self, *positive)
        refuse_outside_unit(self, "discount", "polyak")
        refuse_negative(self, "target_noise", "target_noise_clip", "exploration_noise")
        refuse_negative(
            self, "random_steps", "evaluate_every", "evaluate_max_steps", "max_episode_steps"
        )
        refuse_empty_layers(self, "hidden")
        refuse_unknown_actor(self)
        if self.replay_size < self.batch_size:
            raise ValueError(
                f"--replay-size {self.replay_size} is smaller than --batch-size {self.batch_size}"
            )

    @property
    def updates(self) -> int:
        """Return how many updates reach `total_steps`."""
        return -(-self.total_steps // self.steps_per_update)

    def build(self, layout: Layout) -> StreamRecipe:
        """Put the parts together; only here do names become functions."""
        actor = learned_actor(self, self.activation, searches=False)
        plan = SingleStreamPlan(self.steps_per_update, self.updates, self.random_steps)
        return StreamRecipe(
            config=self,
            environment=actor.environment,
            policy=actor.policy,
            shape=actor.stream_replay(plan, self.replay_size, self.batch_size),
            replay_size=self.replay_size,
            plan=plan,
            learner=partial(_learner, self, actor.policy, actor.trained),
            exploration=self.exploration_noise,
            critics=described_critics(self, self.hidden, self.critic_activation),
        )


def _learner(
    config: TD3, policy: PolicySpec, trained: FirstPolicy | None, replay: Replay
) -> StreamLearner:
    from drumline.recipes.td3_learner import make_learner  # imports torch: not at start-up

    return make_learner(config, policy, replay, trained)
