"""Variance of two gradient estimates against the horizon (Salimans et al. 2017, §3.1 and §3.2).

Both estimates are taken at one linear policy θ, after a few generations of `OpenAIES`, over the
same simulated time; frame skip k leaves T = frames / k decisions. Each costs two episodes:

    es               (F⁺ − F⁻) ε / 2σ of one mirrored pair, raw returns, no action noise
    score            mean of two Σ_t ∇ log π(a_t | o_t) · R, π Gaussian around θ's action
    score-baseline   the same with R less the mean return of all other episodes

The action noise's std is σ √E|x|², x the policy's input with its 1: both explore alike per step.
`normalised_variance` is the trace of the estimate's covariance over the squared norm of its mean;
that norm is estimated without bias, |ḡ|² − tr/n. `variance_over_return_variance` is the trace over
the variance of what multiplies the score: (F⁺ − F⁻) / 2, or half the variance of R. Intervals are
95 % bootstrap intervals over pairs or episodes; `inf` where the mean is not told from zero.

    python benchmarks/learning/es_variance.py --out benchmarks/results/es_variance.csv
    python benchmarks/learning/es_variance.py --plot docs/images/es_variance.png \\
        --out benchmarks/results/es_variance.csv
"""

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline import seeding
from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.search_state import constant_std
from drumline.envs.make import EnvironmentSpec, make_environment
from drumline.functional.perturbation import counter_noise
from drumline.policies.heads import Head
from drumline.policies.mlp import OBSERVATION_CLIP
from drumline.policies.spec import PolicySpec, build_policy, initial_parameters
from drumline.protocols import PublishedLayout
from drumline.runtime.inline_pool import InlinePool
from drumline.tasks import Evaluate, Evaluation
from drumline.workers.evaluator import EvaluatorSpec

STD = 0.05
LEARNING_RATE = 0.05
GENERATIONS = 15
POPULATION = 40
RESAMPLES = 1000


class Sample(NamedTuple):
    """Of n pairs or episodes: score vectors [n, P], and what multiplies them [n]."""

    scores: np.ndarray
    factors: np.ndarray
    episodes: int
    """Episodes that one row costs."""


@dataclass(frozen=True)
class Horizon:
    """An episode cap that stays."""

    initial: int

    def following(self, cap: int, lengths: Sequence[int]) -> int:
        """Return the same cap."""
        return cap


class Search(NamedTuple):
    """A strategy, and the pool that evaluates its tasks in this process."""

    strategy: OpenAIES
    pool: InlinePool


def worker_spec(env: str, frame_skip: int, seed: int) -> EvaluatorSpec:
    spec = EnvironmentSpec(env, "gymnasium", frame_skip)
    environment = make_environment(spec).environment
    space = environment.action_space
    head = Head(
        "continuous",
        low=tuple(space.low.tolist()),
        high=tuple(space.high.tolist()),
        shape=space.shape,
        dtype=space.dtype.str,
    )
    size = int(np.prod(environment.observation_space.shape))
    environment.close()
    return EvaluatorSpec(spec, PolicySpec(size, head, hidden=()), noise_seed=seed)


def search(worker: EvaluatorSpec, start: np.ndarray, decisions: int, seed: int) -> Search:
    sampler = MirroredSampler(seed, counter_noise(seed), obs_stat_probability=1.0)
    strategy = OpenAIES(
        start,
        sampler,
        Adam(start.size, learning_rate=LEARNING_RATE, weight_decay=0.0),
        constant_std(STD),
        moments=ObservationMoments(worker.policy.observation_size),
        episode_cap=Horizon(decisions),
    )
    pool = InlinePool(worker, published=PublishedLayout.of(strategy.published()))
    return Search(strategy, pool)


def evaluate(pool: InlinePool, tasks: Sequence[Evaluate]) -> list[Evaluation]:
    pool.submit(tasks)
    results: dict[int, Evaluation] = {}
    while len(results) < len(tasks):
        for done in pool.completed():
            results[done.result.member] = done.result
    return [results[member] for member in sorted(results)]


def trained(env: str, frames: int, seed: int) -> dict[str, np.ndarray]:
    """Return θ and its observation moments after a few generations at frame skip 1."""
    worker = worker_spec(env, 1, seed)
    start = initial_parameters(worker.policy, seeding.generator(seed, "initial-parameters"))
    strategy, pool = search(worker, start, frames, seed)
    for generation in range(GENERATIONS):
        pool.publish(generation, strategy.published())
        strategy.tell(evaluate(pool, strategy.ask(POPULATION)))
    pool.close()
    return strategy.published()


def es_sample(
    env: str, skip: int, frames: int, policy: dict[str, np.ndarray], pairs: int, seed: int
) -> Sample:
    worker = worker_spec(env, skip, seed)
    size = policy["parameters"].size
    strategy, pool = search(worker, policy["parameters"], frames // skip, seed)
    pool.publish(0, policy)
    results = evaluate(pool, strategy.ask(2 * pairs))
    pool.close()
    read, scratch = counter_noise(seed).read, np.empty(size, np.float32)
    noise = [read(result.noise_key, 0, size, scratch).copy() for result in results[::2]]
    returns = np.array([result.fitness for result in results])
    scores = np.array(noise, np.float64) / STD
    return Sample(scores, (returns[0::2] - returns[1::2]) / 2, 2)


def score_sample(
    env: str,
    skip: int,
    frames: int,
    policy: dict[str, np.ndarray],
    episodes: int,
    std: float,
    seed: int,
) -> Sample:
    worker = worker_spec(env, skip, seed)
    network = build_policy(worker.policy)
    network.load_vector(policy["parameters"])
    network.load_moments(policy["observation_mean"], policy["observation_inverse_std"])
    environment = make_environment(worker.environment).environment
    low, high = environment.action_space.low, environment.action_space.high
    scores, returns = [], []
    for number, reset_seed in enumerate(seeding.seeds(seed, episodes, "episode", 0)):
        rng = seeding.generator(seed, "action-noise", number)
        observation, _ = environment.reset(seed=reset_seed)
        score, total = 0.0, 0.0
        for noise in rng.standard_normal((frames // skip, low.size)):
            score = score + np.outer(inputs(policy, observation), noise / std)
            action = network.output(observation) + std * noise
            observation, reward, terminated, _, _ = environment.step(np.clip(action, low, high))
            total += float(reward)
            if terminated:
                break
        scores.append(np.ravel(score))
        returns.append(total)
    environment.close()
    return Sample(np.array(scores), np.array(returns), 1)


def inputs(policy: dict[str, np.ndarray], observation: np.ndarray) -> np.ndarray:
    """Return the linear policy's input: normalised and clipped, with the bias's 1 behind it."""
    scaled = (observation - policy["observation_mean"]) * policy["observation_inverse_std"]
    return np.append(np.clip(scaled, -OBSERVATION_CLIP, OBSERVATION_CLIP), 1.0)


def input_norm(env: str, frames: int, policy: dict[str, np.ndarray], seed: int) -> float:
    """Return √E|x|² over ten noiseless episodes of θ at frame skip 1."""
    worker = worker_spec(env, 1, seed)
    network = build_policy(worker.policy)
    network.load_vector(policy["parameters"])
    network.load_moments(policy["observation_mean"], policy["observation_inverse_std"])
    environment = make_environment(worker.environment).environment
    squares = []
    for reset_seed in seeding.seeds(seed, 10, "input-norm"):
        observation, _ = environment.reset(seed=reset_seed)
        for _ in range(frames):
            squares.append(np.square(inputs(policy, observation)).sum())
            observation = environment.step(network.act(observation))[0]
    environment.close()
    return float(np.sqrt(np.mean(squares)))


def with_baseline(sample: Sample) -> Sample:
    """Return the sample with returns less the mean return of all other episodes."""
    others = (sample.factors.sum() - sample.factors) / (len(sample.factors) - 1)
    return sample._replace(factors=sample.factors - others)


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def normalised_variance(sample: Sample, rng: np.random.Generator) -> Estimate:
    gradients = sample.scores * sample.factors[:, None]
    count, share = len(gradients), sample.episodes / 2

    def ratio(rows: np.ndarray, bias: float) -> float:
        trace = rows.var(axis=0, ddof=1).sum()
        square = np.square(rows.mean(axis=0)).sum() - bias * trace / count
        return float(share * trace / square) if square > 0 else np.inf

    # A resampled mean scatters around the sample's mean as that does around the true one.
    return interval(gradients, lambda rows: ratio(rows, 2.0), ratio(gradients, 1.0), rng)


def relative_variance(sample: Sample, rng: np.random.Generator) -> Estimate:
    rows = np.column_stack([sample.scores * sample.factors[:, None], sample.factors])

    def ratio(rows: np.ndarray) -> float:
        variances = rows.var(axis=0, ddof=1)
        return float(variances[:-1].sum() / variances[-1])

    return interval(rows, ratio, ratio(rows), rng)


def interval(
    rows: np.ndarray,
    statistic: Callable[[np.ndarray], float],
    value: float,
    rng: np.random.Generator,
) -> Estimate:
    draws = rng.integers(0, len(rows), (RESAMPLES, len(rows)))
    values = np.array([statistic(rows[draw]) for draw in draws])
    low, high = np.quantile(values, [0.025, 0.975], method="nearest")
    return Estimate(value, float(low), float(high))


def rows_of(env: str, seed: int, options: argparse.Namespace) -> list[dict[str, object]]:
    """Return the rows of one environment and seed: frame skips by kinds of estimate."""
    frames = options.frames
    policy = trained(env, frames, seed)
    std = STD * input_norm(env, frames, policy, seed)
    made_by = provenance([seed])
    rows = []
    for skip in options.frame_skips:
        score = score_sample(env, skip, frames, policy, options.episodes, std, seed)
        samples = {
            "es": es_sample(env, skip, frames, policy, options.episodes // 2, seed),
            "score": score,
            "score-baseline": with_baseline(score),
        }
        for kind, sample in samples.items():
            rng = seeding.generator(seed, "bootstrap", env, skip, kind)
            normalised = normalised_variance(sample, rng)
            relative = relative_variance(sample, rng)
            norms = np.square(sample.scores).sum(axis=1)
            rows.append(
                {
                    "environment": env,
                    "estimate": kind,
                    "frame_skip": skip,
                    "horizon_decisions": frames // skip,
                    "simulated_frames": frames,
                    "parameters": sample.scores.shape[1],
                    "samples": len(sample.factors),
                    "episodes": len(sample.factors) * sample.episodes,
                    **columns("normalised_variance", normalised),
                    **columns("variance_over_return_variance", relative),
                    "score_square_mean": f"{norms.mean():.6g}",
                    "factor_std": f"{sample.factors.std(ddof=1):.6g}",
                    "std": STD,
                    "action_std": "" if kind == "es" else f"{std:.4g}",
                    **made_by,
                }
            )
            print(rows[-1], flush=True)
    return rows


def columns(name: str, estimate: Estimate) -> dict[str, str]:
    return {
        name: f"{estimate.value:.6g}",
        f"{name}_low": f"{estimate.low:.6g}",
        f"{name}_high": f"{estimate.high:.6g}",
    }


def plot(table: Path, image: Path) -> None:
    """Draw both variances against the horizon, one row of axes per environment."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    with open(table, newline="") as lines:
        rows = list(csv.DictReader(lines))
    environments = sorted({row["environment"] for row in rows})
    names = ["normalised_variance", "variance_over_return_variance"]
    figure, axes = pyplot.subplots(
        len(environments), 2, figsize=(9, 3.2 * len(environments)), squeeze=False
    )
    for line, env in zip(axes, environments, strict=True):
        for axis, name in zip(line, names, strict=True):
            for kind, marker in (("es", "o"), ("score", "s"), ("score-baseline", "^")):
                draw(
                    axis,
                    [r for r in rows if (r["environment"], r["estimate"]) == (env, kind)],
                    name,
                    kind,
                    marker,
                )
            axis.set(
                xscale="log",
                yscale="log",
                title=env,
                xlabel="decisions per episode",
                ylabel=name.replace("_", " "),
            )
            axis.set_ylim(top=ceiling([r for r in rows if r["environment"] == env], name))
            axis.xaxis.set_major_formatter("{x:.0f}")
            axis.xaxis.set_minor_formatter("")
            axis.set_xticks(sorted({int(row["horizon_decisions"]) for row in rows}))
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(image, dpi=130)


def draw(axis: Any, rows: list[dict[str, str]], name: str, kind: str, marker: str) -> None:
    """Draw one kind of estimate: no point where it is infinite, a bar without end where its end is.

    The caller's axis must leave such bars at its top.
    """
    known = [row for row in rows if np.isfinite(float(row[name]))]
    at = np.array([float(row["horizon_decisions"]) for row in known])
    value, low, high = (
        np.array([float(row[name + end]) for row in known]) for end in ("", "_low", "_high")
    )
    bars = np.maximum([value - low, np.nan_to_num(high - value, posinf=1e30)], 0.0)
    axis.errorbar(at, value, bars, label=kind, marker=marker, capsize=3, linewidth=1)


def ceiling(rows: list[dict[str, str]], name: str) -> float:
    """Return a limit of the axis above everything finite."""
    ends = [float(row[name + end]) for row in rows for end in ("", "_high")]
    return 3.0 * max(end for end in ends if np.isfinite(end))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path, help="draw the table that is there; measure nothing")
    parser.add_argument("--envs", nargs="*", default=["Swimmer-v5", "HalfCheetah-v5"])
    parser.add_argument("--frame-skips", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=800, help="of each estimate; even")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    options = parser.parse_args()
    if options.plot:
        plot(options.out, options.plot)
        return
    table = [
        row for env in options.envs for seed in options.seeds for row in rows_of(env, seed, options)
    ]
    write_table(options.out, table)


if __name__ == "__main__":
    main()
