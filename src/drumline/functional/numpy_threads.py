"""Threads of NumPy's matrix products: one, because sums over several have other bits."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
# (threadpoolctl has no annotations)

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

READ_WHEN_LOADED = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")
"""Variables that a BLAS reads when it is loaded. MKL's would set torch's number of threads, too."""


def one_numpy_thread() -> AbstractContextManager[object]:
    """One thread for NumPy's matrix products, which act; torch's have a flag of their own."""
    return ThreadpoolController().select(internal_api="openblas").limit(limits=1)


@contextmanager
def one_numpy_thread_from_now() -> Generator[None]:
    """The same, and for a BLAS that is loaded meanwhile, such as SciPy's.

    At the end the variables are as they were, and the new library has as many threads as the old.
    """
    kept = {name: os.environ.get(name) for name in READ_WHEN_LOADED}
    loaded: dict[str, int] = {
        each.filepath: each.num_threads for each in _openblas().lib_controllers
    }
    os.environ.update(dict.fromkeys(READ_WHEN_LOADED, "1"))
    try:
        with one_numpy_thread():
            yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        threads = max(loaded.values(), default=os.cpu_count() or 1)
        for library in _openblas().lib_controllers:
            if library.filepath not in loaded:
                library.set_num_threads(threads)


def _openblas() -> ThreadpoolController:
    return ThreadpoolController().select(internal_api="openblas")
