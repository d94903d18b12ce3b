"""The order in which every run opens, trains, leaves a state to go on from, and closes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits

from drumline.protocols import Crew, WorkerPool
from drumline.recipes.attended_pool import StopSignals
from drumline.recipes.ledger import Ledger
from drumline.recipes.stopped import leaves_whole_state
from drumline.types import EvaluationRow, ProcessActivity, Span


def run_in_order(
    train: Callable[..., EvaluationRow | None],
    ledger: Ledger,
    *,
    makes: Sequence[Callable[[], WorkerPool | Crew]],
    checkpoint: Callable[[], None],
    policy: Callable[[], Mapping[str, np.ndarray]],
    close_ledger: Callable[[list[Span], list[ProcessActivity]], None],
    one_thread: Callable[[], AbstractContextManager[object]] = lambda: threadpool_limits(1, "blas"),
    afterwards: Callable[[], None] = lambda: None,
    explain: Callable[[BaseException], None] = lambda error: None,
) -> EvaluationRow | None:
    """Return `train(*workers, signals)`, with workers that `makes` made in that order.

    However it ends, the workers are closed first, the last made before the others; then the
    ledger, which is told what they did; then what closes `afterwards`, and the display. Signals
    are kept back until all is closed: only what waits in `train` lets them in.

    An error leaves a checkpoint of the state that stands, if that is whole. Between two updates or
    events everything changes together, and what is in flight (an episode, an interval, a block, a
    job) is pure: that state is all there is.
    """
    workers: list[WorkerPool | Crew] = []

    def close() -> None:
        spans = [span for worker in workers for span in worker.timeline()]
        close_ledger(spans, [row for worker in workers for row in worker.activity()])

    with StopSignals() as signals, ExitStack() as closing:
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
            return train(*workers, signals)
        except BaseException as error:
            if leaves_whole_state(error):
                if not ledger.finishing:
                    checkpoint()
                ledger.save_stopped(error, policy())
            explain(error)
            raise


def one_numpy_thread() -> AbstractContextManager[object]:
    """One thread for NumPy's matrix products, which act; torch's have a flag of their own."""
    return ThreadpoolController().select(internal_api="openblas").limit(limits=1)
