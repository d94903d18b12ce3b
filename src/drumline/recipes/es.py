"""OpenAI-ES as a recipe: its config, its presets, and the parts that it puts together."""

from dataclasses import dataclass
from typing import Any, Literal

from drumline import seeding
from drumline.algorithms.episode_cap import parse_episode_cap
from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.openai_es import OpenAIES, Shaping
from drumline.algorithms.optimizers import SGD, Adam, Optimizer
from drumline.algorithms.search_state import decaying_std
from drumline.functional.ranking import centered_ranks, unshaped, z_scores
from drumline.policies.spec import initial_parameters
from drumline.recipes.layout import SearchLayout
from drumline.recipes.population import PopulationRecipe
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_outside_unit
from drumline.recipes.searched_policy import environment_and_policy, make_noise, searching_packages
from drumline.schedules.generational import GenerationPlan
from drumline.workers.evaluator import EvaluatorSpec

METHOD = "es"


@dataclass(frozen=True)
class ES:
    """OpenAI-ES (Salimans et al. 2017). Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    population_size: int = 40
    """Episodes per generation (per block, with --generation-env-steps); even."""
    generation_env_steps: int = 0
    """Take further blocks until a generation has this many env steps; 0: one block."""
    std: float = 0.02
    """σ, the std of the search distribution."""
    std_decay: float = 1.0
    """Factor on σ per generation."""
    std_floor: float = 0.0
    """σ never falls below this."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam with coupled L2, or SGD with momentum."""
    learning_rate: float = 0.01
    """Step size of the optimiser."""
    weight_decay: float = 0.005
    """Coefficient of the coupled L2 term."""
    momentum: float = 0.9
    """Momentum of SGD."""
    shaping: Literal["centered-rank", "sign-rank", "z-score", "none"] = "centered-rank"
    """Fitness shaping; sign-rank ranks the sum of the rewards' signs."""
    noise: Literal["table", "counter"] = "table"
    """Shared table, or counter-based Philox (any number of parameters, slower)."""
    noise_table_size: int = 1 << 25
    """Floats in the shared noise table (128 MiB)."""
    policy: str = "mlp"
    """mlp, linear, or package.module:Class of a torch.nn.Module(inputs, outputs)."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of mlp."""
    normalize: bool = True
    """Normalise observations by running moments and clip them to ±5."""
    obs_stat_probability: float = 0.01
    """Probability that a training rollout's observations enter the running moments."""
    action_noise_std: float = 0.01
    """Std of the noise on continuous actions in training rollouts."""
    action_bins: str = "continuous"
    """continuous, uniform:K, or custom:v0,v1,… from -1 to 1."""
    episode_cap: str = "none"
    """none, mean:F (the paper's is mean:2), or adaptive:L0,FRACTION,RATIO."""
    frame_skip: int = 1
    """How often each action is repeated."""
    subset: Literal["none", "perturb", "use"] = "none"
    """Perturb only a block of the parameters per pair, or perturb all and use a block."""
    subset_fraction: float = 0.25
    """Size of that block."""
    common_seeds: bool = False
    """Run both halves of a pair on the same environment seed."""
    evaluate_every: int = 100
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first task again and stop if its bits differ."""

    def __post_init__(self) -> None:
        if self.population_size < 2 or self.population_size % 2:
            raise ValueError(
                f"--population-size must be even and at least 2 (mirrored pairs), "
                f"got {self.population_size}"
            )
        refuse_nonpositive(
            self, "std", "learning_rate", "total_steps", "frame_skip", "evaluate_episodes"
        )
        refuse_negative(self, "evaluate_every")
        refuse_outside_unit(self, "obs_stat_probability", "subset_fraction")


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (es, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


_TINY = {
    "std": 0.1,
    "learning_rate": 0.03,
    "weight_decay": 0.0,
    "obs_stat_probability": 1.0,
    "hidden": (16, 16),
    "evaluate_every": 250,
}
_CONTROL = {"std": 0.05, "learning_rate": 0.02, "obs_stat_probability": 0.2}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {**_TINY, "total_steps": 200_000, "action_noise_std": 0.0},
    "Pendulum-v1": {**_TINY, "total_steps": 2_000_000},
    "InvertedPendulum-v5": {**_TINY, "total_steps": 1_000_000},
    "InvertedDoublePendulum-v5": {**_CONTROL, "total_steps": 5_390_000},
    "Swimmer-v5": {**_CONTROL, "total_steps": 1_390_000, "action_bins": "uniform:10"},
    "Hopper-v5": {**_CONTROL, "total_steps": 5_000_000, "action_bins": "uniform:10"},
    "HalfCheetah-v5": {**_CONTROL, "total_steps": 2_880_000},
    "Walker2d-v5": {**_CONTROL, "total_steps": 10_000_000},
    "Ant-v5": {**_CONTROL, "total_steps": 10_000_000},
    "Humanoid-v5": {
        "total_steps": 50_000_000,
        "population_size": 200,
        "hidden": (256, 256),
        "obs_stat_probability": 0.05,
    },
}


def packages(config: ES) -> tuple[str, ...]:
    """Return the packages that compute in a run."""
    return searching_packages(config, config.policy)


def build(config: ES, layout: SearchLayout) -> PopulationRecipe:
    """Put the parts together; names become functions here and nowhere else."""
    environment, policy = environment_and_policy(config, config.policy, config.hidden)
    rng = seeding.generator(config.seed, "initial-parameters")
    parameters = initial_parameters(policy, rng)
    noise, shared = make_noise(config, parameters.size, layout.update_thread_count)
    size = policy.observation_size
    perturb = config.subset_fraction if config.subset == "perturb" else None
    strategy = OpenAIES(
        parameters,
        MirroredSampler(config.seed, noise, config.common_seeds, config.obs_stat_probability),
        _optimizer(config, parameters.size),
        decaying_std(config.std, config.std_decay, config.std_floor),
        shaping=_SHAPINGS[config.shaping],
        moments=ObservationMoments(size) if config.normalize else None,
        episode_cap=parse_episode_cap(config.episode_cap),
        perturb_fraction=perturb,
        use_fraction=config.subset_fraction if config.subset == "use" else None,
        update_threads=layout.update_thread_count,
    )
    worker = EvaluatorSpec(
        environment=environment,
        policy=policy,
        noise_seed=None if shared is not None else config.seed,
        subset_fraction=perturb,
        action_noise_std=config.action_noise_std,
        sign_fitness=config.shaping == "sign-rank",
    )
    return PopulationRecipe(
        method=METHOD,
        env_id=config.env,
        seed=config.seed,
        total_steps=config.total_steps,
        strategy=strategy,
        plan=GenerationPlan(
            config.population_size, config.generation_env_steps, rehearse=config.promise
        ),
        worker=worker,
        policy=policy,
        shared=shared,
        evaluate_every=config.evaluate_every,
        evaluate_episodes=config.evaluate_episodes,
    )


_SHAPINGS: dict[str, Shaping] = {
    "centered-rank": centered_ranks,
    "sign-rank": centered_ranks,
    "z-score": z_scores,
    "none": unshaped,
}


def _optimizer(config: ES, size: int) -> Optimizer:
    if config.optimizer == "adam":
        return Adam(size, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    return SGD(
        size,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
    )
