"""Intervals to learn from, learners to try, and what they should do as plain loops and autograd."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from loss_oracles import log_prob_and_entropy
from torch import Tensor

from drumline import seeding
from drumline.algorithms.a2c import A2C, A2CSettings
from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.network_gradients import AutogradGradient, WrittenOutGradient
from drumline.algorithms.ppo import PPO, PPOSettings
from drumline.algorithms.rollout_preparation import RolloutPreparation
from drumline.algorithms.torch_optimizers import TorchAdam, TorchOptimizer
from drumline.functional.losses import Loss, a2c_loss, ppo_loss, reinforce_loss
from drumline.functional.shards import Shards
from drumline.policies.actions import ActionHead, sample
from drumline.policies.actor_critic import build_network, initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.vector import FlatParameters
from drumline.types import Rollout

DISCOUNT = 0.9
LAMBDA = 0.8
STEPS, ENVIRONMENTS, SIZE = 7, 4, 3
CATEGORICAL = ActionHead("categorical", (3,))
GAUSSIAN = ActionHead("gaussian", (2,))


def spec_of(head: ActionHead = CATEGORICAL, normalize: bool = False) -> NetworkSpec:
    return NetworkSpec((SIZE,), "<f4", head, hidden=(5,), normalize=normalize)


def parameters_of(spec: NetworkSpec, number: int) -> np.ndarray:
    """Parameters `number`, far enough apart for ratios that get clipped."""
    initial = initial_parameters(spec, 0)
    drawn = np.random.default_rng(number).standard_normal(len(initial))
    return initial + (0.3 * drawn).astype(np.float32)


def rollout_of(spec: NetworkSpec, behavior: Mapping[str, np.ndarray], interval: int = 3) -> Rollout:
    """An interval with ends of both kinds, acted by these published arrays."""
    rng = np.random.default_rng(100 + interval)
    grid = (STEPS, ENVIRONMENTS)
    observations = rng.standard_normal((STEPS + 1, ENVIRONMENTS, SIZE)).astype(np.float32)
    inference = InferenceSpec(spec)()
    inference.load(behavior)
    outputs, values = inference(observations[:-1].reshape(-1, SIZE))
    normal = spec.head.noise_kind == "normal"
    shape = (STEPS * ENVIRONMENTS, spec.head.noise_size)
    noise = rng.standard_normal(shape) if normal else rng.random(shape)
    actions, log_probs = sample(spec.head, outputs, noise.astype(np.float32))
    terminated, truncated = np.zeros(grid, bool), np.zeros(grid, bool)
    terminated[2, 0] = terminated[STEPS - 1, 1] = terminated[3, 3] = True
    truncated[3, 1] = truncated[4, 0] = truncated[1, 3] = truncated[STEPS - 1, 3] = True
    environments, steps = np.nonzero(truncated.T)
    return Rollout(
        interval,
        observations,
        actions.reshape(*grid, *spec.head.action_shape),
        rng.standard_normal(grid).astype(np.float32),
        terminated,
        truncated,
        log_probs.reshape(grid),
        values.reshape(grid).copy(),
        steps.astype(np.int32),
        environments,
        rng.standard_normal((len(steps), SIZE)).astype(np.float32),
    )


class Downhill:
    """A `TorchOptimizer` without state that keeps every gradient."""

    def __init__(self) -> None:
        self.steps = 0
        self.gradients: list[Tensor] = []

    def step(self, parameters: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Step by the gradient itself."""
        self.steps += 1
        self.gradients.append(gradient.clone())
        parameters.sub_(gradient, alpha=learning_rate)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return nothing."""
        return {}

    def load(self, tensors: Mapping[str, np.ndarray], steps: int) -> None:
        """Take over the count."""
        self.steps = steps


A2C_SETTINGS = A2CSettings(DISCOUNT, 0, LAMBDA, 1e9, "delayed")
PPO_SETTINGS = PPOSettings(
    discount=DISCOUNT,
    gae_lambda=LAMBDA,
    epochs=3,
    minibatches=2,
    normalize_advantages=True,
    max_gradient_norm=1e9,
    target_kl=0.0,
    correction="ppo-ratio",
    seed=11,
)
RATE = 0.05
VALUE = 0.5
CLIP = 0.2
ENTROPY = 0.01


@dataclass
class Made:
    """A learner and its parts."""

    written_out: ClassVar[bool] = False
    """Whether the gradient is the MLP's own, not autograd's."""
    settings: A2CSettings | PPOSettings = A2C_SETTINGS
    head: ActionHead = CATEGORICAL
    live: int = 2
    optimizer: TorchOptimizer = field(default_factory=Downhill)
    entropy: Callable[[int], float] = lambda interval: ENTROPY
    clip: Callable[[int], float] = lambda interval: CLIP
    clip_values: bool = True
    normalize: bool = False
    scale: bool = False
    microbatches: Microbatches = field(default_factory=lambda: Microbatches(4096))
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec = spec_of(self.head, self.normalize)
        start = parameters_of(self.spec, self.live)
        self.network = LearnedNetwork(
            self.spec, start, precision="fp32", microbatches=self.microbatches
        )
        self.preparation = RolloutPreparation(
            SIZE,
            ENVIRONMENTS,
            discount=DISCOUNT,
            normalize_observations=self.normalize,
            scale_rewards=self.scale,
        )
        state = LearningState(self.network.live, self.optimizer)
        parts = (self.network, state, self.preparation)
        make: Any = A2C if isinstance(self.settings, A2CSettings) else PPO
        gradient = WrittenOutGradient if self.written_out else AutogradGradient
        given = {"loss": self.loss, "gradient": gradient(self.network), **self.options}
        if isinstance(shards := self.options.get("shards", 1), int):
            given["shards"] = Shards.alone(shards)
        self.learner: A2C | PPO = make(*parts, self.settings, learning_rate=lambda k: RATE, **given)

    def loss(self, interval: int) -> Loss:
        """The learner's own loss with the coefficients of an interval."""
        weights = {"value_coefficient": VALUE, "entropy_coefficient": self.entropy(interval)}
        if isinstance(self.settings, A2CSettings):
            if self.settings.baseline == "none":
                return partial(reinforce_loss, entropy_coefficient=self.entropy(interval))
            return partial(a2c_loss, **weights)
        clip = self.clip(interval)
        return partial(
            ppo_loss, clip=clip, value_clip=clip if self.clip_values else None, **weights
        )

    @property
    def parameters(self) -> np.ndarray:
        """The live parameters, copied."""
        return self.network.live.values.numpy().copy()

    def behavior(self, number: int = 1) -> dict[str, np.ndarray]:
        """Parameters that another version published."""
        return {**self.preparation.published(), "parameters": parameters_of(self.spec, number)}


def everything(settings: A2CSettings | PPOSettings, live: int = 2, **options: Any) -> Made:
    """A learner with all state that there is."""
    size = len(parameters_of(spec_of(), 0))
    return Made(
        settings, live=live, optimizer=TorchAdam(size), normalize=True, scale=True, options=options
    )


def learn(made: Made, intervals: range) -> None:
    """Learn from intervals that were acted by what was published one version before."""
    for interval in intervals:
        behavior = made.behavior(interval)
        made.learner.update(rollout_of(made.spec, behavior, interval), behavior)


class Rows(NamedTuple):
    """Numbers of every row `[T, B]` in float64."""

    targets: np.ndarray
    advantages: np.ndarray


class Explicit:
    """A network at given parameters, with plain loops over what follows from its values."""

    def __init__(self, spec: NetworkSpec, parameters: np.ndarray, rollout: Rollout):
        self.spec, self.rollout = spec, rollout
        self.flat = FlatParameters(build_network(spec))
        self.flat.load(parameters)

    def evaluate(self, observations: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return outputs and values, with gradients."""
        return self.flat.module(torch.from_numpy(observations.reshape(-1, SIZE)))

    def log_probs(self) -> np.ndarray:
        """Return log π of every action `[T, B]`."""
        rollout = self.rollout
        with torch.no_grad():
            outputs, _ = self.evaluate(rollout.observations[:-1])
            actions = torch.from_numpy(
                rollout.actions.reshape(len(outputs), *self.spec.head.action_shape)
            )
            return (
                log_prob_and_entropy(self.spec.head, outputs, actions)[0]
                .numpy()
                .reshape(rollout.rewards.shape)
            )

    def values(self) -> np.ndarray:
        """Return V of every row, the one after the last included `[T + 1, B]`."""
        with torch.no_grad():
            _, values = self.evaluate(self.rollout.observations)
        return values.numpy().astype(np.float64).reshape(STEPS + 1, ENVIRONMENTS)

    def after(self, t: int, b: int, values: np.ndarray) -> float:
        """Return the value of what follows a step, before any discount."""
        rollout = self.rollout
        if rollout.terminated[t, b]:
            return 0.0
        if rollout.truncated[t, b]:
            mine = (rollout.final_environments == b) & (rollout.final_steps == t)
            with torch.no_grad():
                return float(self.evaluate(rollout.final_observations[mine])[1][0])
        return float(values[t + 1, b])

    def ended(self, t: int, b: int) -> bool:
        """Whether an episode ended at a step, either way."""
        return bool(self.rollout.terminated[t, b] or self.rollout.truncated[t, b])

    def gae(self, values: np.ndarray) -> Rows:
        """Sums of discounted errors up to the end of the episode or of the interval."""
        advantages = np.zeros((STEPS, ENVIRONMENTS))
        for b in range(ENVIRONMENTS):
            for t in range(STEPS):
                factor = 1.0
                for j in range(t, STEPS):
                    reward = float(self.rollout.rewards[j, b])
                    error = reward + DISCOUNT * self.after(j, b, values) - values[j, b]
                    advantages[t, b] += factor * error
                    factor *= DISCOUNT * LAMBDA
                    if self.ended(j, b):
                        break
        return Rows(advantages + values[:STEPS], advantages)

    def n_step(self, values: np.ndarray, unroll: int) -> Rows:
        """Discounted rewards up to the end of the unroll, and the value there."""
        returns = np.zeros((STEPS, ENVIRONMENTS))
        for b in range(ENVIRONMENTS):
            for t in range(STEPS):
                factor = 1.0
                for j in range(t, STEPS):
                    returns[t, b] += factor * float(self.rollout.rewards[j, b])
                    factor *= DISCOUNT
                    if self.ended(j, b) or (j + 1) % unroll == 0 or j + 1 == STEPS:
                        returns[t, b] += factor * self.after(j, b, values)
                        break
        return Rows(returns, returns - values[:STEPS])

    def without_values(self) -> Rows:
        """Discounted rewards up to the end of the episode or of the interval, and nothing more."""
        returns = np.zeros((STEPS, ENVIRONMENTS))
        for b in range(ENVIRONMENTS):
            for t in range(STEPS):
                for j in range(t, STEPS):
                    returns[t, b] += DISCOUNT ** (j - t) * float(self.rollout.rewards[j, b])
                    if self.ended(j, b):
                        break
        return Rows(returns, returns)

    def vtrace(self, values: np.ndarray, ratios: np.ndarray, lambda_: float) -> Rows:
        """Espeholt et al. 2018, eq. 1 as a sum, with both bounds 1."""
        bounded = np.minimum(ratios, 1.0)
        targets, advantages = values[:STEPS].copy(), np.zeros((STEPS, ENVIRONMENTS))
        for b in range(ENVIRONMENTS):
            for t in range(STEPS):
                factor = 1.0
                for j in range(t, STEPS):
                    reward = float(self.rollout.rewards[j, b])
                    error = reward + DISCOUNT * self.after(j, b, values) - values[j, b]
                    targets[t, b] += factor * bounded[j, b] * error
                    factor *= DISCOUNT * lambda_ * bounded[j, b]
                    if self.ended(j, b):
                        break
            for t in range(STEPS):
                inside = t + 1 < STEPS and not self.ended(t, b)
                following = targets[t + 1, b] if inside else self.after(t, b, values)
                error = float(self.rollout.rewards[t, b]) + DISCOUNT * following - values[t, b]
                advantages[t, b] = bounded[t, b] * error
        return Rows(targets, advantages)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the loss's gradient as a vector, by autograd on the whole."""
        parts = torch.autograd.grad(loss, list(self.flat.module.parameters()))
        return torch.cat([part.reshape(-1) for part in parts])


def clipped(gradient: Tensor, most: float) -> Tensor:
    """Return the gradient, no longer than `most`."""
    return gradient * min(1.0, most / float(gradient.norm()))


def explicit_a2c(made: Made, rollout: Rollout, behavior: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Return the next parameters and the gradient of one update."""
    settings, live = made.settings, made.parameters
    assert isinstance(settings, A2CSettings)
    at = behavior if settings.correction == "delayed" else live
    explicit = Explicit(made.spec, at, rollout)
    values = explicit.values()
    ratios = np.exp(explicit.log_probs().astype(np.float64) - rollout.log_probs)
    if settings.baseline == "none":
        rows = explicit.without_values()
    elif settings.correction == "vtrace":
        rows = explicit.vtrace(values, ratios, settings.gae_lambda)
    elif settings.unroll:
        rows = explicit.n_step(values, settings.unroll)
    else:
        rows = explicit.gae(values)
    weights = rows.advantages
    if settings.correction == "truncated-is":
        weights = weights * np.minimum(ratios, settings.ratio_bound)
    outputs, now = explicit.evaluate(rollout.observations[:-1])
    actions = torch.from_numpy(rollout.actions.reshape(len(now), *made.spec.head.action_shape))
    log_probs, entropy = log_prob_and_entropy(made.spec.head, outputs, actions)
    loss = -(log_probs * torch.from_numpy(weights.reshape(-1))).mean()
    errors = torch.from_numpy(rows.targets.reshape(-1)) - now
    learned = 0.0 if settings.baseline == "none" else VALUE
    loss = loss + learned * 0.5 * errors.square().mean()
    loss = loss - made.entropy(rollout.interval) * entropy.mean()
    gradient = clipped(explicit.gradient(loss), settings.max_gradient_norm)
    return live - RATE * gradient.numpy(), gradient


class PPORun(NamedTuple):
    """Expected result of one update of PPO."""

    parameters: np.ndarray
    gradients: list[Tensor]
    kls: list[float]


def explicit_ppo(made: Made, rollout: Rollout, behavior: np.ndarray, shards: int = 1) -> PPORun:
    """Go through the minibatches one by one, whole losses at once."""
    settings, live = made.settings, made.parameters
    assert isinstance(settings, PPOSettings)
    recomputed = settings.correction in ("decoupled", "truncated-is", "vtrace", "none")
    before = Explicit(made.spec, live if recomputed else behavior, rollout)
    values, old = before.values(), rollout.log_probs
    if not recomputed:
        values[:STEPS] = rollout.values
    ratios = np.exp(before.log_probs().astype(np.float64) - rollout.log_probs)
    if settings.correction == "vtrace":
        rows = before.vtrace(values, ratios, settings.gae_lambda)
    else:
        rows = before.gae(values)
    if settings.correction == "truncated-is":
        rows = Rows(rows.targets, rows.advantages * np.minimum(ratios, 1.0))
    weights = np.ones_like(ratios)
    if settings.correction == "decoupled":
        weights = np.minimum(ratios, 100.0)
    if settings.correction in ("decoupled", "truncated-is", "none"):
        old = before.log_probs()
    start = behavior if settings.correction == "delayed" else live
    parameters, gradients, kls = start.copy(), [], []
    grid = np.arange(STEPS * ENVIRONMENTS).reshape(STEPS, ENVIRONMENTS)
    width = ENVIRONMENTS // shards
    for epoch in range(settings.epochs):
        orders = [
            seeding.generator(settings.seed, "shuffle", rollout.interval, epoch, s).permutation(
                grid[:, s * width : (s + 1) * width].reshape(-1)
            )
            for s in range(shards)
        ]
        size = len(orders[0]) // settings.minibatches
        for number in range(settings.minibatches):
            chosen = np.concatenate([o[number * size : (number + 1) * size] for o in orders])
            now = Explicit(made.spec, parameters, rollout)
            loss, kl = _ppo_loss(now, made, rows, values, old, chosen, weights)
            gradients.append(clipped(now.gradient(loss), settings.max_gradient_norm))
            kls.append(kl)
            parameters = parameters - RATE * gradients[-1].numpy()
    if settings.correction == "delayed":
        parameters = live + (parameters - start)
    return PPORun(parameters, gradients, kls)


def _ppo_loss(
    now: Explicit,
    made: Made,
    rows: Rows,
    old_values: np.ndarray,
    old_log_probs: np.ndarray,
    chosen: np.ndarray,
    weights: np.ndarray,
) -> tuple[Tensor, float]:
    rollout, settings = now.rollout, made.settings
    assert isinstance(settings, PPOSettings)
    clip, coefficient = made.clip(rollout.interval), made.entropy(rollout.interval)
    outputs, values = now.evaluate(rollout.observations[:-1].reshape(-1, SIZE)[chosen])
    actions = rollout.actions.reshape(-1, *now.spec.head.action_shape)[chosen]
    log_probs, entropy = log_prob_and_entropy(now.spec.head, outputs, torch.from_numpy(actions))
    advantages = rows.advantages.reshape(-1)[chosen]
    if settings.normalize_advantages:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    total = torch.zeros((), dtype=torch.float64)
    kl = 0.0
    for row, place in enumerate(chosen):
        difference = log_probs[row].double() - float(old_log_probs.reshape(-1)[place])
        ratio, advantage = difference.exp(), float(advantages[row])
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        target = float(rows.targets.reshape(-1)[place])
        old = float(old_values[:STEPS].reshape(-1)[place])
        error = (values[row].double() - target) ** 2
        if made.clip_values:
            near = old + (values[row].double() - old).clamp(-clip, clip)
            error = torch.maximum(error, (near - target) ** 2)
        total = total - float(weights.reshape(-1)[place]) * surrogate + VALUE * 0.5 * error
        total = total - coefficient * entropy[row].double()
        kl += float((ratio - 1 - difference).detach())
    return total / len(chosen), kl / len(chosen)


def with_nan(rollout: Rollout) -> Rollout:
    """The same interval, with a reward that is no number."""
    rewards = rollout.rewards.copy()
    rewards[4, 2] = np.nan
    return rollout._replace(rewards=rewards)


def same_state(mine: Any, other: Any) -> bool:
    """Whether two states are equal in every bit."""
    return mine.counters == other.counters and {
        name: (t.dtype, t.shape, t.tobytes()) for name, t in mine.tensors.items()
    } == {name: (t.dtype, t.shape, t.tobytes()) for name, t in other.tensors.items()}


def flipped(state: Any, name: str) -> Any:
    """The state with the last bit of one number of one tensor changed."""
    tensor = state.tensors[name].copy()
    tensor.reshape(-1).view(np.uint8).reshape(-1, tensor.itemsize)[len(tensor) // 2, 0] ^= 1
    return replace(state, tensors={**state.tensors, name: tensor})
