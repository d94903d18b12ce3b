"""Checks of an environment: what training would refuse, and what it would only do badly.

Everything is measured with random actions. Sentences name what to change.
"""

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np

from drumline import seeding
from drumline.commands.environment_findings import (
    CONTINUOUS,
    EVERY,
    LEARNED,
    ROLLED_OUT,
    SEARCHED,
    Checked,
    Finding,
    Verdict,
)
from drumline.commands.environment_speed import threads_now, timed
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec, MadeEnvironment
from drumline.envs.kept_statistics import kept_statistics
from drumline.envs.lanes import ActionForm
from drumline.envs.make import check_spaces, make_environment
from drumline.envs.observation_spaces import check_observations
from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.policies.actions import head_for
from drumline.policies.heads import Head
from drumline.policies.network_spec import image_of
from drumline.protocols import PublishedLayout, Whereabouts
from drumline.recipes.action_bounds import far_bounds
from drumline.recipes.erl import continuous_head
from drumline.recipes.learned_actor import learned_head
from drumline.recipes.pictures import with_convolutions
from drumline.runtime.process_pool import ProcessPool
from drumline.workers.random_episode import RandomEpisode, RandomEpisodeSpec, Trace

_FIRST, _SECOND = 11, 12
_LOGGER = logging.getLogger("drumline")


class _Fault(Exception):
    """A sentence after which nothing more can be checked."""


class EnvironmentChecks:
    """Checks of one environment; `run` makes them in their order, up to a fault that ends them."""

    def __init__(self, spec: EnvironmentSpec, steps: int, seconds: float, whereabouts: Whereabouts):
        self._spec = spec
        self._steps = steps
        self._seconds = seconds
        self._whereabouts = whereabouts
        self._made: list[MadeEnvironment] = []
        self._checked = Checked(spec.id, spec.engine)

    def run(self) -> Checked:
        """Make all checks and return what they found."""
        with seeding.kept_globals(), _logged() as logged:
            try:
                self._check_all()
            except _Fault:
                pass
            except EnvironmentProblem as problem:
                self._add(self._stage, "fault", str(problem).removeprefix(f"{self._spec.id}: "))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code raises anything
                self._add(self._stage, "fault", _raised(error))
            finally:
                self._whereabouts.leave()
                for made in self._made:
                    made.close()
        for text in dict.fromkeys(logged):
            self._add("api", "note", text.removeprefix(f"{self._spec.id}: "))
        return self._checked

    def _check_all(self) -> None:
        self._stage = "make"
        threads = threads_now()
        began = time.perf_counter()
        environment = self._new()
        self._checked.measured["creation_seconds"] = time.perf_counter() - began
        self._stage = "spaces"
        self._check_spaces(environment)
        self._stage = "api"
        traces = self._check_form(environment)
        self._stage = "seeding"
        self._check_seeds(environment, traces)
        if self._spec.engine == "gymnasium":
            self._stage = "global state"
            self._check_globals(environment, traces[0])
            self._check_sharing(traces)
        self._stage = "worker"
        self._check_worker(traces[0])
        self._stage = "speed"
        self._measure(environment, threads)

    def _new(self) -> MadeEnvironment:
        self._whereabouts.enter(f"the check of {self._spec.id}")
        made = make_environment(self._spec)
        self._made.append(made)
        return made

    def _add(self, check: str, verdict: Verdict, sentence: str) -> None:
        self._checked.findings.append(Finding(check, verdict, sentence))

    def _check_spaces(self, made: MadeEnvironment) -> None:
        observations, actions = made.environment.observation_space, made.environment.action_space
        self._checked.observations, self._checked.actions = str(observations), str(actions)
        reasons = self._checked.not_served
        families: tuple[tuple[tuple[str, ...], Callable[[], object]], ...] = (
            (SEARCHED, lambda: check_spaces(made.environment, self._spec.id)),
            (LEARNED, lambda: self._check_learned(made, learned_head)),
            (CONTINUOUS, lambda: self._check_learned(made, continuous_head)),
            (ROLLED_OUT, lambda: self._check_lanes(observations, actions)),
        )
        for names, check in families:
            try:
                check()
            except ValueError as problem:
                reasons.update(dict.fromkeys(names, str(problem)))
        if set(reasons) >= {*EVERY}:
            raise EnvironmentProblem(next(iter(reasons.values())))
        self._add("spaces", "ok", f"observations {observations}, actions {actions}")
        if sentence := far_bounds(actions):
            self._add("spaces", "note", sentence)
        for reason in dict.fromkeys(reasons.values()):
            names = ", ".join(name for name, why in reasons.items() if why == reason)
            why = reason.removeprefix(f"{self._spec.id} has ")
            self._add("spaces", "note", f"not for {names}: {why}")
        if len(observations.shape) == 3:
            self._checked.pictures = True
            seen = tuple(observations.shape), observations.dtype.str
            self._add(
                "spaces",
                "note",
                f"observations look like images: {', '.join(SEARCHED + LEARNED + CONTINUOUS)} put "
                f"their {int(np.prod(observations.shape)):,} values into an MLP; "
                + (
                    f"{', '.join(ROLLED_OUT)} take nature-cnn"
                    if image_of(*seen)
                    else f"and so do {', '.join(ROLLED_OUT)} without a network of convolutions: "
                    f"{with_convolutions(*seen)}"
                ),
            )

    def _check_learned(self, made: MadeEnvironment, head_of: Callable[[Any, str], Head]) -> None:
        check_spaces(made.environment, self._spec.id)
        head_of(made.environment.action_space, self._spec.id)

    def _check_lanes(self, observations: Any, actions: Any) -> None:
        check_observations(observations, self._spec.id)
        ActionForm(actions, self._spec.id)
        head_for(actions)

    def _trace(self, made: MadeEnvironment, seed: int) -> Trace:
        """Run a random episode as a worker does, with the global generators seeded."""
        seeding.seed_globals(seed)
        return self._episode(made, seed).run(self._steps, self._progress)

    def _episode(self, made: MadeEnvironment, seed: int) -> RandomEpisode:
        return RandomEpisode(made.environment, made.limit, seed)

    def _progress(self, amount: int) -> None:
        self._whereabouts.step[0] += amount

    def _check_form(self, made: MadeEnvironment) -> tuple[Trace, Trace]:
        seeding.seed_globals(_FIRST)
        episode = self._episode(made, _FIRST)
        episode.begin()
        while not episode.ended and episode.length < self._steps:
            self._check_finite(episode.last, episode.length)
            episode.step()
            self._progress(1)
        self._check_finite(episode.last, episode.length)
        self._add(
            "api", "ok", f"reset() and step() return what they should ({episode.length} steps)"
        )
        space = made.environment.observation_space
        if np.asarray(episode.last).dtype != space.dtype:
            self._add(
                "api",
                "note",
                f"observations are {np.asarray(episode.last).dtype} and their space says "
                f"{space.dtype}: every step converts them",
            )
        return episode.trace, self._trace(made, _SECOND)

    def _check_finite(self, observation: Any, step: int) -> None:
        if not np.isfinite(np.asarray(observation, np.float64)).all():
            self._fault(
                "api",
                f"the observation of step {step} is not finite: a run would end there; keep NaN "
                "and infinity out of what reset() and step() return",
            )

    def _check_seeds(self, made: MadeEnvironment, traces: tuple[Trace, Trace]) -> None:
        kept = kept_statistics(made.environment)
        for seed, before in zip((_FIRST, _SECOND), traces, strict=True):
            self._refuse_difference(
                "seeding",
                before.first_difference(self._trace(made, seed)),
                "run again with the same seed and actions",
                "it keeps state that reset(seed=…) does not reset, or draws from a generator of "
                "its own: set in reset() all that step() reads, and draw from self.np_random "
                f"after super().reset(seed=seed){kept and f'; {kept}'}",
            )
        self._add("seeding", "ok", "the same seed and actions give the same bits")
        if traces[0].observations[0] == traces[1].observations[0]:
            self._add(
                "seeding",
                "note",
                "two seeds give the same first observation: if episodes should begin differently, "
                "draw their start from self.np_random after super().reset(seed=seed)",
            )

    def _check_globals(self, made: MadeEnvironment, before: Trace) -> None:
        drawn = [name for name in _GENERATORS if self._draws(made, before, name)]
        if drawn:
            reason = (
                f"it draws from the global generator of {' and '.join(drawn)}: draw from "
                "self.np_random after super().reset(seed=seed)"
            )
            self._checked.no_promise = dict.fromkeys(ROLLED_OUT, reason)
            self._fault(
                "global state",
                f"{reason}. {', '.join(ROLLED_OUT)} step environments in turn, so that one's draws "
                "would change another's; the other methods seed these generators for every episode",
            )

    def _draws(self, made: MadeEnvironment, before: Trace, name: str) -> bool:
        seeding.seed_globals(_FIRST)
        _draw_from(name)
        again = self._episode(made, _FIRST).run(self._steps, self._progress)
        return bool(before.first_difference(again))

    def _check_sharing(self, traces: tuple[Trace, Trace]) -> None:
        """Step two new environments in turn; each must do as if it were alone."""
        pair = [self._episode(self._new(), seed) for seed in (_FIRST, _SECOND)]
        for episode in pair:
            episode.begin()
        for _ in range(self._steps):
            for episode in pair:
                if not episode.ended:
                    episode.step()
                    self._progress(1)
        for episode, before in zip(pair, traces, strict=True):
            difference = before.first_difference(episode.trace)
            if difference:
                self._checked.no_promise = dict.fromkeys(ROLLED_OUT, "its instances share state")
            self._refuse_difference(
                "global state",
                difference,
                "stepped in turn with another instance of it",
                "the instances share state (in a class, a module or a library) or depend on how "
                "many were made before: keep it in self, set in __init__ and reset()",
            )
        self._add(
            "global state", "ok", "no global generator is drawn from; two instances share no state"
        )

    def _check_worker(self, before: Trace) -> None:
        self._whereabouts.leave()
        factory = RandomEpisodeSpec(self._spec, self._steps)
        pool = ProcessPool(factory, size=1, published=PublishedLayout({}), log=lambda text: None)
        try:
            pool.submit([_FIRST])
            trace: Trace = pool.completed()[0].result
        except WorkerError as error:
            cause = str(error.cause) if isinstance(error.cause, EnvironmentProblem) else error.error
            self._fault("worker", f"in a worker process: {cause}")
        except (TaskKilledWorkers, WorkersLost) as error:
            self._fault("worker", f"it ends its process: {error}")
        finally:
            pool.close()
        difference = before.first_difference(trace)
        if difference:
            self._checked.no_promise = dict.fromkeys(EVERY, "it depends on its process")
        self._refuse_difference(
            "worker",
            difference,
            "in another process",
            "it depends on the process: its id, its clock, its environment variables, the "
            "addresses of objects or what was imported before",
        )
        self._add("worker", "ok", "a worker process makes it by its name and gets the same bits")

    def _measure(self, made: MadeEnvironment, threads: int) -> None:
        self._whereabouts.enter(f"the timing of {self._spec.id}")
        speed = timed(partial(self._episode, made), self._seconds, threads, self._progress)
        limit = made.limit or made.wrapped_limit
        self._checked.measured |= speed.figures(limit)
        self._checked.findings += speed.findings(limit)

    def _refuse_difference(self, check: str, difference: str, when: str, fix: str) -> None:
        if difference:
            self._fault(check, f"{when}, it gave another {difference}: {fix}")

    def _fault(self, check: str, sentence: str) -> NoReturn:
        self._add(check, "fault", sentence)
        raise _Fault


_GENERATORS = ("Python's random", "NumPy", "torch")


def _draw_from(name: str) -> None:
    """Draw one number from a global generator, so that an environment that uses it gets others."""
    if name == "NumPy":
        np.random.random_sample()  # noqa: NPY002 - the global generator is what is examined
    elif name == "torch":
        if "torch" in sys.modules:
            sys.modules["torch"].rand(1)
    else:
        import random

        random.random()


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what Drumline logs, instead of printing it."""
    lines: list[str] = []

    class _Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, propagated = _Lines(logging.WARNING), _LOGGER.propagate
    _LOGGER.addHandler(handler)
    _LOGGER.propagate = False
    try:
        yield lines
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.propagate = propagated


def _raised(error: BaseException) -> str:
    """Return an error of the environment with the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"it raised {type(error).__name__}: {text}{where}"
