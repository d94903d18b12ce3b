"""The order in which every run opens, trains, saves a state to resume from, and closes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# (threadpoolctl has no annotations)

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from drumline.training.ledger import Ledger
from drumline.training.stop_signals import StopSignals
from drumline.training.stopped import leaves_whole_state
from drumline.types import EvaluationRow, ProcessActivity, Span


class Workers(Protocol):
    """Processes that work for a run: a pool, a crew, or groups of a run."""

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked."""
        ...

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work."""
        ...

    def close(self) -> None:
        """End every process; may be called twice."""
        ...


def run_in_order(
    train: Callable[..., None],
    ledger: Ledger,
    *,
    evaluate_last: Callable[..., None],
    makes: Sequence[Callable[[], Workers]],
    checkpoint: Callable[[], None],
    policy: Callable[[], Mapping[str, np.ndarray]],
    close_ledger: Callable[[list[Span], list[ProcessActivity]], None],
    one_thread: Callable[[], AbstractContextManager[object]] = lambda: threadpool_limits(1, "blas"),
    afterwards: Callable[[], None] = lambda: None,
    explain: Callable[[BaseException], None] = lambda error: None,
) -> EvaluationRow | None:
    """Call `train(*workers, signals)` with workers that `makes` made in that order.

    Then `evaluate_last` has the last policy evaluated, which is saved; returns that evaluation.

    However the run ends, the workers are closed first, the last made before the others; then the
    ledger, with the workers' activity; then what closes `afterwards`, and the display. Signals are
    kept back until all is closed: only a wait in `train` lets them in.

    An error in a wait leaves a checkpoint of the latest state. Between two waits parameters, rows
    and counters change one after another, so an error there leaves the last checkpoint. Work in
    flight (an episode, an interval, a block, a job) is pure and can be started again, so a
    checkpoint needs no more.
    """
    workers: list[Workers] = []

    def activity() -> list[ProcessActivity]:
        return [row for worker in workers for row in worker.activity()]

    def close() -> None:
        spans = [span for worker in workers for span in worker.timeline()]
        close_ledger(spans, activity())

    with StopSignals() as signals, ExitStack() as closing:
        ledger.closes_within(signals)
        closing.callback(ledger.display.close)
        closing.callback(afterwards)
        closing.callback(close)
        for make in makes:
            workers.append(make())
            closing.callback(workers[-1].close)
        ledger.open()
        closing.enter_context(one_thread())
        if ledger.fresh:
            checkpoint()
        ledger.start_display()
        try:
            train(*workers, signals)
            # The checkpoint comes first: a longer run must not count this evaluation.
            checkpoint()
            ledger.finishing = True
            evaluate_last(*workers, signals)
            ledger.save_policy("last", ledger.last_evaluation, policy())
            ledger.call_last()
            ledger.show_if_due(activity, last=True)
            return ledger.last_evaluation
        except BaseException as error:
            ledger.ended_by(error)
            if signals.state_whole and leaves_whole_state(error):
                if not ledger.finishing:
                    checkpoint()
                ledger.save_stopped(error, policy())
            explain(error)
            ledger.say_how_to_go_on(error)
            raise
