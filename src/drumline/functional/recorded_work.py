"""RecordedWork: work on fixed tensors of a device, whose kernels a GPU starts as one graph.

The host takes longer to start the kernels of a small network one by one than a GPU takes to run
them: 1.2 ms for a forward pass of nature-cnn on 16 rows, of which its kernels take 0.2 (H100). A
graph has the same kernels in the same order, so the same bits (tested).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import torch

Stage = Callable[[], None]
"""Work that reads and writes the same tensors each time, draws no random numbers, never waits for
the device, and does the same when it is done twice."""


class RecordedWork:
    """Stages of one piece of work, each to be called after the one before it.

    On a GPU the first call records all of them. On any other device, and on a GPU for work that it
    refuses to record, each call runs its stage.
    """

    def __init__(self, device: torch.device, *stages: Stage):
        self._device = device
        self._stages = stages
        self._graphs: list[Any] = []
        self._records = device.type == "cuda"

    @property
    def recorded(self) -> bool:
        """Whether calls replay what was recorded."""
        return bool(self._graphs)

    def __call__(self, stage: int = 0) -> None:
        """Run a stage, on the device's current stream."""
        if self._records and not self._graphs:
            self._record()
        if self._graphs:
            self._graphs[stage].replay()
        else:
            self._stages[stage]()

    def _record(self) -> None:
        try:
            self._graphs = _graphs_of(self._device, self._stages)
        except RuntimeError:  # a kernel that no graph can hold
            self._records = False
            torch.cuda.synchronize(self._device)


class RecordedCall:
    """A function of tensors, recorded once it is called again with the very same objects.

    Its result is overwritten by the next call.
    """

    def __init__(self, function: Callable[..., Any], device: torch.device):
        self._function = function
        self._device = device
        self._given: tuple[Any, ...] | None = None
        self._work: RecordedWork | None = None
        self._result: Any = None

    def __call__(self, *given: Any) -> Any:
        """Return the function's result for these objects, whatever they hold now."""
        before = self._given
        if before is None or any(a is not b for a, b in zip(before, given, strict=True)):
            self._given, self._work = given, None
            return self._function(*given)
        if self._work is None:
            self._work = RecordedWork(self._device, self._run)
        self._work()
        return self._result

    def _run(self) -> None:
        assert self._given is not None, "there are arguments to call with"
        self._result = self._function(*self._given)


_streams: dict[torch.device, Any] = {}


def _graphs_of(device: torch.device, stages: tuple[Stage, ...]) -> list[Any]:
    """Return a graph of each stage; RuntimeError for work that no graph can hold.

    All stages run once before: libraries set themselves up at their first call, which no graph may
    hold. Graphs share memory, so they are to be replayed in this order.
    """
    with torch.cuda.device(device):
        stream = _streams.setdefault(device, torch.cuda.Stream(device))
        current = torch.cuda.current_stream(device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for stage in stages:
                stage()
        torch.cuda.synchronize(device)
        pool = torch.cuda.graph_pool_handle()
        with torch.cuda.stream(stream), _no_collection():
            graphs = [_graph_of(stage, pool) for stage in stages]
        current.wait_stream(stream)
    return graphs


def _graph_of(stage: Stage, pool: Any) -> Any:
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        stage()
    except BaseException:
        with suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
    return graph


@contextmanager
def _no_collection() -> Generator[None]:
    """Keep the garbage collector from freeing a graph while another is recorded."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def finish(device: torch.device) -> None:
    """Wait until a GPU has done what its current stream was given; others do so at once."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def host_buffer(shape: tuple[int, ...], kind: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros on the host, pinned where the device is a GPU, which then copies beside it."""
    return torch.zeros(shape, dtype=kind, pin_memory=device.type == "cuda")
