"""Shape checks and repeatable property tests for the whole suite."""

import signal
import sys
from collections.abc import Iterator

import hypothesis
import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook
from threadpoolctl import threadpool_limits

from drumline.runtime.cluster.node_checks import arithmetic_variables, set_arithmetic_variables

# Before any test imports them: signatures like Float[np.ndarray, "N"] are checked at run time, in
# this process only. Children and users do not pay for it.
install_import_hook(["drumline.functional", "drumline.algorithms", "theory"], "beartype.beartype")

# Several threads gain nothing at the sizes of tests and spin where other processes want the cores:
# orthogonal weights took seconds. What must not depend on threads sets their number itself.
torch.set_num_threads(1)
threadpool_limits(1, "blas")

# A shell that starts the suite in the background has it and its children ignore Ctrl-C, which some
# tests send: a terminal does not.
signal.signal(signal.SIGINT, signal.default_int_handler)

HANDLED = (signal.SIGINT, signal.SIGHUP)  # not SIGTERM: a cluster of Ray sets one of its own

# A red suite must be red again when it is run again, on any machine and under any load.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=50
)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def handlers_of_signals_stay() -> Iterator[None]:
    """Name the test that leaves a handler of Ctrl-C or of a closed terminal behind."""
    before = [signal.getsignal(number) for number in HANDLED]
    yield
    after = [signal.getsignal(number) for number in HANDLED]
    for number, handler in zip(HANDLED, before, strict=True):
        if handler is not None:  # not Python's to put back
            signal.signal(number, handler)
    assert after == before, "this test leaves another handler of a signal behind"


@pytest.fixture(autouse=True)
def variables_of_arithmetic_stay() -> Iterator[None]:
    """Name the test that leaves a variable changed by which libraries choose their kernels.

    Children of later tests would compute other bits than this process.
    """
    before = arithmetic_variables()
    yield
    after = arithmetic_variables()
    set_arithmetic_variables(before)
    assert after == before, "this test leaves variables of arithmetic changed"


@pytest.fixture(autouse=True)
def imported_modules_stay() -> Iterator[None]:
    """Name the test that removes a module: a later test would change one, and call another."""
    before = dict(sys.modules)
    yield
    removed = {name for name, module in before.items() if sys.modules.get(name) is not module}
    for name in removed:
        sys.modules[name] = before[name]
    assert not removed, f"this test removes or replaces modules: {sorted(removed)}"


@pytest.fixture(autouse=True, scope="session")
def hashes_are_taken_for_those_of_workers() -> Iterator[None]:
    """Make no worker for each environment of the tests; `test_hashing` calls other processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drumline.api.opened_runs.refuse_hash_order", lambda *arguments: None)
        yield


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """No checks of shapes in this test: they take half of a small run.

    Every method has a checked run: that which a module's `expected` makes to compare others with.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
