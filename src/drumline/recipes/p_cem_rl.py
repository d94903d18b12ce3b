"""P-CEM-RL of the AES-RL release as a recipe: CEM-RL on logical workers, with a barrier."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Self

from drumline.algorithms.first_critics import first_critics
from drumline.populations.cem_rl import GenerationPopulation
from drumline.populations.critic_turns import CriticTurns, TurnsBeside, TurnsOfMembers
from drumline.recipes.cem import search
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refining import generational_parts, generational_plan
from drumline.recipes.refused_values import (
    refuse_device_on_ray,
    refuse_nonpositive,
    refuse_unusable_distribution,
    refuse_unusable_refining,
    refuse_unusable_replay,
    refuse_unusable_training,
)
from drumline.recipes.virtual_clock import (
    no_promise_by_clock,
    refuse_unusable_clock,
    virtual_costs,
    with_whole_path,
)
from drumline.training.layout import Layout, SteadyLayout
from drumline.training.steady_run import SteadyRecipe

_SMALL = {
    "total_steps": 50_000,
    "warmup_steps": 1_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "initial_variance": 1e-2,
    "damp": 1e-2,
}


@dataclass(frozen=True)
class PCEMRL:
    """P-CEM-RL: CEM-RL on logical workers, with a barrier per generation."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    max_episode_steps: int = 0
    """Longest episode in env steps, in evaluations too; 0: as long as the environment lets it."""
    env_kwargs: str = ""
    """Arguments of the environment's constructor as JSON, as in '{"forward_reward_weight": 2}'."""
    flatten_observations: bool = False
    """Make one vector of observations in parts (Dict, Tuple, Discrete), as Gymnasium does."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the hidden layers of actor and critics."""
    network: str = "mlp"
    """mlp, or package.module:Class of a torch.nn.Module of your own, for the actor."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the actor's hidden layers."""
    critic_activation: Literal["tanh", "relu", "leaky-relu"] = "leaky-relu"
    """Activation of the critics' hidden layers."""
    evaluate_every: int = 5
    """Updates (generations) between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    mean_evaluations: int = 1
    """Episodes of the mean at the end of each generation, while all workers wait; 0: none."""
    warmup_steps: int = 10_000
    """Env steps before the first gradient step."""
    replay_size: int = 1_000_000
    """Transitions that are kept."""
    batch_size: int = 256
    """Transitions per gradient step."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actors and critics."""
    discount: float = 0.99
    """Discount γ per env step."""
    polyak: float = 0.005
    """Share of the critics that enters their targets at each step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the forward and backward passes of gradient steps."""
    device: str = "cpu"
    """Device of gradient steps: cpu, cuda or cuda:N. Episodes stay on the cores. On GPU models
    other than those of docs/determinism.md a run carries no promise."""
    target_noise: float = 0.2
    """Std of the noise on target actions."""
    target_noise_clip: float = 0.5
    """Largest noise on target actions."""
    population_size: int = 10
    """Individuals, and episodes, per generation."""
    elites: int = 5
    """K: individuals that make the next distribution."""
    initial_variance: float = 1e-3
    """Variance of each parameter at the start."""
    damp: float = 1e-3
    """ε at the start, added to the variance."""
    damp_limit: float = 1e-5
    """ε in the limit."""
    damp_decay: float = 0.9
    """Share of ε that is kept per generation; CEM-RL's code has 0.95."""
    antithetic: bool = True
    """Whether members i and i + N/2 have opposite noise."""
    divide_by_elites: bool = True
    """Whether the variance is divided by K once more, as in CEM-RL's code."""
    refined_members: int = 5
    """R: members of a generation that are refined by gradient steps (n_grad)."""
    actor_steps_scale: float = 1.0
    """Gradient steps of a refined member per env step of the generation before."""
    critic_steps_scale: float = 1.0
    """Gradient steps of the critics, shared out among refined members, per env step of the
    generation before."""
    warmup: Literal["population", "random"] = "random"
    """population: generations that are told and not refined; random: episodes with random actions,
    of which the strategy is not told."""
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
    """Virtual nanoseconds of an actor's gradient step; 0: computed from networks, batch and the two
    costs above."""
    critic_step_cost: int = 0
    """Virtual nanoseconds of a critics' gradient step; 0: computed likewise."""
    least_env_steps: int = 1
    """Least env steps of an episode (1000 for HalfCheetah): lets results be handled sooner."""
    critic: Literal["serial", "parallel"] = "serial"
    """serial: critics learn between generations, while all workers wait; parallel: all the time."""
    critic_batches: int = 1000
    """parallel: gradient steps of one critic job."""
    throttle_critic: bool = False
    """parallel: take no more gradient steps than there were env steps, as aes does."""

    LAYOUT: ClassVar[type[Layout]] = SteadyLayout
    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": {**_SMALL, "env_step_cost": 40_000},
        "Pendulum-v1": {**_SMALL, "env_step_cost": 45_000, "least_env_steps": 200},
        "InvertedPendulum-v5": {**_SMALL, "env_step_cost": 90_000},
        "HalfCheetah-v5": {"least_env_steps": 1000},
        "Hopper-v5": {},
        "Walker2d-v5": {},
        "Swimmer-v5": {"least_env_steps": 1000},
        "Ant-v5": {"env_step_cost": 400_000},
        "Humanoid-v5": {
            "hidden": (256, 256),
            "learning_rate": 3e-4,
            "env_step_cost": 550_000,
        },
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_training(self)
        refuse_unusable_replay(self)
        refuse_unusable_distribution(self)
        refuse_unusable_refining(self)
        refuse_unusable_clock(self)
        refuse_nonpositive(self, "critic_batches")
        if self.throttle_critic and self.critic == "serial":
            raise ValueError(
                "--throttle-critic goes with --critic parallel: a serial critic takes "
                "--critic-steps-scale steps per env step"
            )

    @property
    def no_promise(self) -> str:
        """Return why this run cannot be repeated; empty if it can."""
        return no_promise_by_clock(self)

    def resolved(self) -> Self:
        """Return the config with the log's absolute path."""
        return with_whole_path(self)

    def build(self, layout: SteadyLayout) -> SteadyRecipe:
        """Put the parts together; only here do names become functions."""
        refuse_device_on_ray(self, layout)
        parts = generational_parts(self)
        plan = replace(
            generational_plan(self),
            throttle_critic=self.throttle_critic,
            least_env_steps=parts.actor.least(self.least_env_steps),
        )
        turns: CriticTurns = TurnsOfMembers(all_first=True)
        if self.critic == "parallel":
            turns = TurnsBeside(self.critic_batches)
        population = partial(
            GenerationPopulation,
            plan,
            search(self, parts.actor.first_parameters(self.seed)),
            turns,
            first_critics(parts.critic_sizes, self.seed),
        )
        return SteadyRecipe(
            config=self,
            environment=parts.actor.environment,
            policy=parts.actor.policy,
            shape=parts.shape,
            jobs=parts.jobs,
            population=population,
            concurrency=self.concurrency,
            longest_episode=parts.actor.longest,
            costs=virtual_costs(self, parts.actor.counted_sizes, parts.critic_sizes),
            order=self,
        )
