"""Virtual clock of methods with logical workers: the checks of its fields, and its costs."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from drumline.functional.virtual_costs import GradientRate, gradient_work
from drumline.recipes.families import Clocked
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive
from drumline.schedules.event_order import VirtualCosts

C = TypeVar("C", bound=Clocked)

_LATEST = 2**62
"""Nanoseconds that a run's steps of one kind may take, so that 64 bits hold every virtual time."""


def refuse_unusable_clock(config: Clocked) -> None:
    """Raise for the first field of the clock that could never work."""
    refuse_nonpositive(config, "concurrency", "least_env_steps")
    refuse_nonpositive(config, "env_step_cost", "multiply_add_cost")
    refuse_negative(config, "gradient_overhead_cost", "actor_step_cost", "critic_step_cost")
    costs = ("env_step_cost", "gradient_overhead_cost", "actor_step_cost", "critic_step_cost")
    for name in costs:
        _refuse_long(config, f"--{name.replace('_', '-')}", getattr(config, name))
    if config.replay_events and config.clock != "wall":
        raise ValueError("--replay-events goes with --clock wall: a virtual clock needs no log")


def no_promise_by_clock(config: Clocked) -> str:
    """Return why a run cannot be repeated; empty if it can."""
    if config.clock == "virtual" or config.replay_events:
        return ""
    return "--clock wall handles results as they arrive; verify repeats it from events.jsonl"


def with_whole_path(config: C) -> C:
    """Return the config with the log's absolute path, so that a resume finds it from any folder."""
    if not config.replay_events:
        return config
    path = Path(config.replay_events).resolve()
    if not path.is_file():
        raise ValueError(f"--replay-events {config.replay_events}: there is no such file")
    return replace(config, replay_events=str(path))  # pyright: ignore[reportArgumentType]


def virtual_costs(
    config: Clocked, actor_sizes: tuple[int, ...], critic_sizes: tuple[int, ...]
) -> VirtualCosts:
    """Return the virtual nanoseconds of steps, by the layer sizes of actor and critics."""
    rate = GradientRate(config.gradient_overhead_cost, config.multiply_add_cost)
    work = gradient_work(actor_sizes, critic_sizes, 2, config.batch_size)
    costs = VirtualCosts(
        config.env_step_cost,
        config.actor_step_cost or rate.step(work.actor),
        config.critic_step_cost or rate.step(work.critic),
    )
    for cost in (costs.actor_step, costs.critic_step):
        by_rate = f"a gradient step's cost, by --multiply-add-cost {rate.picoseconds},"
        _refuse_long(config, by_rate, cost)
    return costs


def _refuse_long(config: Clocked, named: str, cost: int) -> None:
    most = int(_LATEST // config.total_steps)
    if cost > most:
        raise ValueError(
            f"{named} must be at most {most} with --total-steps {config.total_steps}, so that "
            f"64 bits hold the virtual time, got {cost}"
        )
