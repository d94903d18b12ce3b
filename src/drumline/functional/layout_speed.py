"""Upper bounds for the env steps per second of a layout, from the costs of single pieces."""

from typing import NamedTuple


class StepCosts(NamedTuple):
    """Core seconds of one env step, by piece."""

    environment: float
    forward: float
    learner: float
    """Share of an update; 0 if it was not measured."""


class Prediction(NamedTuple):
    """Upper bound for one layout, and the piece that bounds it."""

    workers: int
    env_steps_per_second: float
    bottleneck: str


def pool_speed(costs: StepCosts, workers: int, cores: int) -> Prediction:
    """min(w, cores) / (environment + forward): episodes in a pool, without the updates between."""
    acting = costs.environment + costs.forward
    return Prediction(workers, min(workers, cores) / acting, _acting_bound(costs))


def overlapped_speed(costs: StepCosts, executors: int, cores: int) -> Prediction:
    """1 / max(acting / executors, learning, (acting + learning) / cores): overlapped schedule.

    Rollout and learning run at the same time.
    """
    acting, learning = costs.environment + costs.forward, costs.learner
    bounds = {
        _acting_bound(costs): acting / min(executors, cores),
        "learner": learning,
        "cores": (acting + learning) / cores,
    }
    bottleneck = max(bounds, key=lambda name: bounds[name])
    return Prediction(executors, 1 / bounds[bottleneck], bottleneck)


def sequential_speed(costs: StepCosts, executors: int, cores: int) -> Prediction:
    """1 / (environment / executors + forward + learner): in turn; only environments are spread."""
    parts = {
        "environment": costs.environment / min(executors, cores),
        "forward": costs.forward,
        "learner": costs.learner,
    }
    return Prediction(executors, 1 / sum(parts.values()), max(parts, key=lambda name: parts[name]))


def _acting_bound(costs: StepCosts) -> str:
    return "environment" if costs.environment >= costs.forward else "forward"
