"""A universe from its number: which training, which layout, which faults; and what came of it.

Bounded faults: the run must end, with the bytes of the training without faults. Faults without a
bound: what is readable after any of them must be a part of that training, and when they end the run
must, too.
"""

import math
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from drumline.commands.outcome import _judged as outcome_of
from universe import readable, tiny, trainings
from universe.disk import Disk
from universe.kernel import SimOS
from universe.patches import patched
from universe.world import FAULTS, START, Plan, Stuck, World

METHODS = tuple(trainings.METHODS)
MODES = ("bounded", "unbounded")
LONGEST_SECONDS = 10.0
"""Virtual time that a training may take beside that of its points; a lost wake-up takes 15 s."""
UNBOUNDED = 0.25
"""Share of the universes with faults without a bound."""
MOST_SESSIONS = 12
MOST_POINTS = 15_000
"""Points of an unbounded universe, after which the power is cut."""


@dataclass
class Outcome:
    """Outcome of a universe: its finding, faults and costs."""

    number: int
    method: str
    mode: str = "bounded"
    order: str = "strong"
    finding: str = ""
    """Empty: the bytes are those of the training without faults, or a part of them (unbounded)."""
    refusal: str = ""
    """The last sentence by which a command refused to go on."""
    refusals: int = 0
    """Readers that refused the folder in one sentence, after faults without a bound."""
    injected: Counter[str] = field(default_factory=Counter)
    points: int = 0
    virtual_seconds: float = 0.0
    processor_seconds: float = 0.0
    sessions: int = 1
    log: list[str] = field(default_factory=list)


def plan_of(rng: random.Random, mode: str = "bounded") -> Plan:
    """Return the faults of a universe; bounded ones let the run end as without them."""
    plan = Plan(slow=rng.choice([1.0, 3.0, 30.0]), most=2, most_driver=rng.choice([0, 0, 1, 2]))
    scale = rng.choice([3e-4, 2e-3, 1e-2])
    plan.kill = scale * rng.choice([0, 1])
    plan.exit = scale * rng.choice([0, 0, 1])
    plan.hang = scale * rng.choice([0, 0, 0.5])
    plan.stop = scale * rng.choice([0, 1])
    plan.driver_kill = scale * rng.choice([0.3, 1.0])
    plan.power_loss = scale * rng.choice([0, 0.5])
    plan.order = rng.choice(["strong", "x86"])
    plan.most_disk = rng.choice([0, 0, 1, 2])
    plan.full = rng.choice([0.003, 0.03, 0.1])
    plan.error = plan.full * rng.choice([0, 0.3])
    if mode == "unbounded":
        plan.most = plan.most_driver = plan.most_disk = math.inf
        plan.full *= rng.choice([0, 1])
        plan.most_points = rng.randrange(MOST_POINTS)
    return plan


def explored(
    number: int,
    method: str | None = None,
    planted: Callable[[], AbstractContextManager[None]] = nullcontext,
    *,
    mode: str | None = None,
    order: str | None = None,
    without: Collection[str] = (),
) -> Outcome:
    """Run one universe, with a bug that is `planted` after the run without faults was made.

    `mode` and `order` replace those of the universe's number; faults of kinds `without` strike not.
    """
    rng = random.Random(f"universe {number}")
    chosen = method or rng.choices(list(METHODS), trainings.WEIGHTS)[0]
    drawn = "unbounded" if rng.random() < UNBOUNDED else "bounded"
    config = trainings.METHODS[chosen](rng)
    plan = plan_of(rng, mode or drawn)
    plan.order = order or plan.order
    for kind in without:
        setattr(plan, FAULTS[kind], 0.0)
    place = Path(tempfile.mkdtemp(prefix="universe-"))
    try:
        whole = trainings.expected(chosen, config.seed, _baselines())
        outcome = Outcome(number, chosen, mode or drawn, plan.order)
        with planted():
            outcome = _Universe(outcome, config, plan, place, rng, whole).explored()
        outcome.finding = outcome.finding.replace(str(place), "UNIVERSE")
        # The names of temporary files are random, whatever the universe.
        refusal = outcome.refusal.replace(str(place), "UNIVERSE")
        outcome.refusal = re.sub(r"\.[0-9a-f]{32}\.partial", ".partial", refusal)
        return outcome
    finally:
        shutil.rmtree(place, ignore_errors=True)


class _Universe:
    """One universe while it is explored."""

    def __init__(
        self,
        outcome: Outcome,
        config: Any,
        plan: Plan,
        place: Path,
        rng: random.Random,
        whole: trainings.Whole,
    ):
        self._outcome = outcome
        self._config = config
        self._rng = rng
        self._whole = whole
        self._bounded = outcome.mode == "bounded"
        self._out = place / "run"
        self._world = World(outcome.number, plan)
        self._disk = Disk(self._out, random.Random(outcome.number))
        self._world.on_power_loss = self._disk.lose_power

    def explored(self) -> Outcome:
        """Train and resume; say what is wrong."""
        outcome, world = self._outcome, self._world
        tiny.POINTS[:] = [world]
        try:
            system = SimOS(world, self._disk.synced)
            with patched(world, system):
                outcome.finding = self._sessions()
        except Stuck as error:
            outcome.finding = f"stuck: {error}"
        except Exception as error:  # noqa: BLE001 - whatever a universe raises is its finding
            outcome.finding = f"{type(error).__name__}: {error}"
        finally:
            tiny.POINTS.clear()
            self._disk.close()
        outcome.injected, outcome.points, outcome.log = world.injected, world.points, world.log
        outcome.virtual_seconds = world.now - START
        return outcome

    def _sessions(self) -> str:
        world, outcome = self._world, self._outcome
        most = MOST_SESSIONS if self._bounded else self._rng.randint(1, 4)
        for session in range(1, most + 1):
            outcome.sessions = session
            if self._ended():
                return self._equal() or self._late()
        if self._bounded:
            return f"no end in {most} sessions"
        if torn := self._no_part():
            return torn
        world.plan = Plan(order=world.plan.order)  # faults end, so the run must
        if not self._ended():
            return f"cannot go on: {outcome.refusal}"
        return self._equal()

    def _ended(self) -> bool:
        """Run one session; return whether the training has come to its end."""
        world, out = self._world, self._out
        before = self._disk_faults()
        layout = trainings.layout_of(self._outcome.method, self._rng)
        driver = world.spawn(partial(trainings.run, self._config, layout, out), ["driver"])
        world.run(driver)
        if world.full_until > world.now:
            world.full_until = 0.0  # a person makes room
        if driver.error is None:
            return driver.status == 0
        if not isinstance(driver.error, Exception):
            raise driver.error
        code, sentence = outcome_of(driver.error)
        if not code:
            raise driver.error
        expected = self._disk_faults() > before and "cannot write" in sentence
        if self._bounded and not expected:
            raise driver.error
        self._outcome.refusal = sentence
        if "start the run again with another --out" in sentence:
            shutil.rmtree(out)
        return False

    def _disk_faults(self) -> int:
        return self._world.injected["full disk"] + self._world.injected["disk error"]

    def _equal(self) -> str:
        found, wanted = trainings.content(self._out), self._whole.content
        different = [name for name in wanted if found.get(name) != wanted[name]]
        return f"other bytes in {', '.join(different)}" if different else ""

    def _late(self) -> str:
        world = self._world
        seconds = world.now - START
        if world.injected["hang"] or world.injected["stop"]:
            return ""
        if seconds <= LONGEST_SECONDS + world.points * 1e-3:
            return ""
        return f"{seconds:.0f} s, although no process has stood still"

    def _no_part(self) -> str:
        torn = self._world.injected["power loss"] > 0
        found = list(readable.wrong(self._out, self._whole, torn=torn))
        if self._out.exists():
            self._outcome.refusals = len(readable.refusals(self._out))
        return "; ".join(found)


def _baselines() -> Path:
    place = Path(tempfile.gettempdir()) / f"universe-baselines-{os.getpid()}"
    place.mkdir(exist_ok=True)
    return place
