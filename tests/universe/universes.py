"""A universe from its number: which training, which layout, which faults; and what came of it."""

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from universe import tiny, trainings
from universe.disk import Disk
from universe.kernel import SimOS
from universe.patches import patched
from universe.world import START, Plan, Stuck, World

METHODS = ("es", "hts", "aes")
LONGEST_SECONDS = 10.0
"""Virtual time that a training may take beside that of its points; a lost wake-up takes 15 s."""


@dataclass
class Outcome:
    """What came of a universe."""

    number: int
    method: str
    finding: str = ""
    """Empty: the training has the bytes of the one without faults."""
    injected: Counter[str] = field(default_factory=Counter)
    points: int = 0
    virtual_seconds: float = 0.0
    sessions: int = 1
    log: list[str] = field(default_factory=list)


def plan_of(rng: random.Random) -> Plan:
    """Return the faults of a universe: bounded, so that the run must end as without them."""
    plan = Plan(slow=rng.choice([1.0, 3.0, 30.0]), most=2, most_driver=rng.choice([0, 0, 1, 2]))
    scale = rng.choice([3e-4, 2e-3, 1e-2])
    plan.kill = scale * rng.choice([0, 1])
    plan.exit = scale * rng.choice([0, 0, 1])
    plan.hang = scale * rng.choice([0, 0, 0.5])
    plan.stop = scale * rng.choice([0, 1])
    plan.driver_kill = scale * rng.choice([0.3, 1.0])
    plan.power_loss = scale * rng.choice([0, 0.5])
    return plan


def explored(
    number: int,
    method: str | None = None,
    planted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Outcome:
    """Run one universe, with a bug that is `planted` after the run without faults was made."""
    rng = random.Random(f"universe {number}")
    chosen = method or rng.choice(METHODS)
    config = trainings.METHODS[chosen](rng)
    plan = plan_of(rng)
    place = Path(tempfile.mkdtemp(prefix="universe-"))
    try:
        wanted = trainings.expected(chosen, config.seed, _baselines())
        with planted():
            return _explored(Outcome(number, chosen), config, plan, place, rng, wanted)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _explored(
    outcome: Outcome,
    config: Any,
    plan: Plan,
    place: Path,
    rng: random.Random,
    wanted: dict[str, bytes],
) -> Outcome:
    out = place / "run"
    world = World(outcome.number, plan)
    disk = Disk(out, random.Random(outcome.number))
    world.on_power_loss = disk.lose_power
    system = SimOS(world, disk.synced)
    tiny.POINTS[:] = [world]
    try:
        with patched(world, system):
            for session in range(1, 9):
                outcome.sessions = session
                layout = trainings.layout_of(outcome.method, rng)
                driver = world.spawn(partial(trainings.run, config, layout, out), ["driver"])
                world.run(driver)
                if driver.error is not None:
                    raise driver.error
                if driver.status == 0:
                    break
            found = trainings.content(out)
        different = [name for name in wanted if found.get(name) != wanted[name]]
        if different:
            outcome.finding = f"other bytes in {', '.join(different)}"
        elif not (world.injected["hang"] or world.injected["stop"]):
            seconds = world.now - START
            if seconds > LONGEST_SECONDS + world.points * 1e-3:
                outcome.finding = f"{seconds:.0f} s, although no process has stood still"
    except Stuck as error:
        outcome.finding = f"stuck: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a universe raises is its finding
        outcome.finding = f"{type(error).__name__}: {error}"
    finally:
        tiny.POINTS.clear()
        disk.close()
    outcome.injected, outcome.points, outcome.log = world.injected, world.points, world.log
    outcome.virtual_seconds = world.now - START
    return outcome


def _baselines() -> Path:
    place = Path(tempfile.gettempdir()) / f"universe-baselines-{os.getpid()}"
    place.mkdir(exist_ok=True)
    return place
