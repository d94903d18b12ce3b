"""Shared memory in which a process sees the stores of another late, and perhaps in another order.

Every process has a copy of each shared memory of its own. What it stores waits in its store buffer
and reaches the others later:

    strong    at once
    x86       in the order of the stores (total store order: x86-64)
    weak      in any order, apart from stores to one word, and each process sees them by itself (ARM
              lets loads overtake loads, which looks like this to the process that loads)

A system call empties the store buffer of the process and shows it all that the buffers of others
have let go. Linux takes and leaves a lock in each call that Drumline synchronises with (eventfd,
pipe, poll), which on x86-64 is a full barrier and on ARM orders the two sides of one bell at least.

An assignment to an element, slice or index array is one store for each element of it, in any order;
two assignments keep their order. Other stores (`out=`) are found at the next point, in memories of
up to 128 KiB.
"""

import random
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

ORDERS = ("strong", "x86", "weak")
_SEARCHED = 1 << 14
"""Words of the largest memory that is searched for stores other than assignments."""
LATE = (0.0, 0.0, 1e-5, 1e-4, 5e-3)
"""Seconds for which a store may wait; a point takes about 2e-5 s."""


_EIGHT = np.arange(8)
"""Bytes of a word."""


class Store(NamedTuple):
    """Bytes that become visible together, and when."""

    due: float
    places: np.ndarray
    values: np.ndarray


class Copy:
    """One process's copy of a shared memory."""

    def __init__(self, memory: "Memory", process: Any):
        self.memory = memory
        self.process = process
        self.words = memory.words.copy()
        self.bytes = self.words.view(np.uint8)
        self.base = self.words.__array_interface__["data"][0]
        self._noted = self.words.copy()
        self._touched = np.zeros_like(self.words)
        self._range = slice(0, 0)
        """Words among which some were touched."""
        self.waiting: deque[Store] = deque()
        """Stores of the process that no other has seen."""
        self.coming: deque[Store] = deque()
        """Stores of others that have left their buffers, and that the process has not seen."""

    def touch(self, array: np.ndarray, key: Any) -> None:
        """Note that `array[key]` was assigned, even if to the value that was there."""
        at = array.__array_interface__["data"][0] - self.base
        if not 0 <= at < self.bytes.size:
            return  # an array of the process's own
        size = array.dtype.itemsize
        whole = np.frombuffer(b"\xff" * size, f"V{size}")[0]
        same = np.ndarray(
            array.shape, whole.dtype, self._touched.view(np.uint8).data, at, array.strides
        )
        same[key] = whole
        low, high = byte_bounds(same)
        base = self._touched.__array_interface__["data"][0]
        self._range = slice((low - base) // 8, -(-(high - base) // 8))

    def assigned(self) -> np.ndarray:
        """Return the places of the bytes of the last assignment."""
        part = self._range
        self._range = slice(0, 0)
        return self._places(self._touched[part].nonzero()[0] + part.start)

    def stored(self) -> np.ndarray:
        """Return the places of bytes that were stored otherwise."""
        if self.words.size > _SEARCHED:
            return np.empty(0, int)
        return self._places((self.words != self._noted).nonzero()[0])

    def _places(self, words: np.ndarray) -> np.ndarray:
        if not len(words):
            return words
        places = (words[:, None] * 8 + _EIGHT).reshape(-1)
        noted, touched = self._noted.view(np.uint8), self._touched.view(np.uint8)
        places = places[(self.bytes[places] != noted[places]) | (touched[places] != 0)]
        self._touched[words] = 0
        noted[places] = self.bytes[places]
        return places

    def see(self, store: Store) -> None:
        """Show the process a store of another, but where its own buffer has a later one."""
        places, values = store.places, store.values
        if self.waiting:
            free = ~np.isin(places, np.concatenate([one.places for one in self.waiting]))
            places, values = places[free], values[free]
        self.bytes[places] = self._noted.view(np.uint8)[places] = values

    def forget(self, store: Store) -> None:
        """Drop what comes from others where the process's own store has come after it."""
        for place, one in enumerate(self.coming):
            free = ~np.isin(one.places, store.places)
            self.coming[place] = Store(one.due, one.places[free], one.values[free])


class Memory:
    """A shared memory and its copies by process."""

    def __init__(self, size: int):
        self.words = np.zeros(-(-size // 8), np.uint64)
        self.copies: dict[Any, Copy] = {}


class Memories:
    """All shared memories of a universe."""

    def __init__(self, rng: random.Random, order: str):
        self._rng = rng
        self.order = order
        self._memories: dict[tuple[int, int], Memory] = {}
        self._copies: list[Copy] = []

    def copy_of(self, key: tuple[int, int], size: int, process: Any, *, new: bool) -> Copy:
        """Return a process's copy of the memory of a file, which is `new` or known."""
        if new:
            self._memories[key] = Memory(size)
        memory = self._memories[key]
        if process not in memory.copies:
            memory.copies[process] = Copy(memory, process)
            self._copies.append(memory.copies[process])
        return memory.copies[process]

    def note(self, process: Any, now: float) -> None:
        """Put the new stores of a process into its buffer."""
        for copy in self._copies:
            if copy.process is process:
                self._note(copy, now)

    def stored(self, copy: Copy, array: np.ndarray, key: Any, now: float) -> None:
        """Note an assignment to `array[key]`, also of the value that was there."""
        copy.touch(array, key)
        self._put(copy, copy.assigned(), now)

    def pass_on(self, now: float) -> None:
        """Let stores whose time has come leave their buffers, and be seen."""
        for copy in self._copies:
            if copy.waiting:
                self._leave(copy, now)
        for copy in self._copies:
            if copy.coming:
                self._arrive(copy, now)

    def barrier(self, process: Any, now: float) -> None:
        """Empty a process's buffers."""
        for copy in self._copies:
            if copy.process is process:
                self._note(copy, now)
                if copy.waiting:
                    self._leave(copy, float("inf"))
                if copy.coming:
                    self._arrive(copy, float("inf"))

    def load(self, process: Any) -> None:
        """Show a process all that has left the buffers of others."""
        for copy in self._copies:
            if copy.process is process and copy.coming:
                self._arrive(copy, float("inf"))

    def ended(self, process: Any) -> None:
        """Empty the buffers of a process that ends: its stores were made."""
        self.barrier(process, 0.0)
        for copy in self._copies:
            if copy.process is process:
                del copy.memory.copies[process]
        self._copies = [copy for copy in self._copies if copy.process is not process]

    def _note(self, copy: Copy, now: float) -> None:
        self._put(copy, copy.stored(), now)

    def _put(self, copy: Copy, places: np.ndarray, now: float) -> None:
        if not len(places):
            return
        if self.order == "strong":
            self._show(copy, Store(now, places, copy.bytes[places]))
            return
        parts = [places]
        words = places // 8
        if words[0] != words[-1] and self._rng.random() < 0.3:
            early = words < self._rng.randint(int(words[0]), int(words[-1]))
            parts = [places[early], places[~early]]
            self._rng.shuffle(parts)
        for part in parts:
            if len(part):
                due = now + self._rng.choice(LATE)
                if self.order == "x86" and copy.waiting:
                    due = max(due, copy.waiting[-1].due)
                copy.waiting.append(Store(due, part, copy.bytes[part]))

    def _leave(self, copy: Copy, now: float) -> None:
        if all(store.due > now for store in copy.waiting):
            return
        held: deque[Store] = deque()
        while copy.waiting:
            store = copy.waiting.popleft()
            # An earlier store to one of its words goes first.
            if store.due > now or any(np.isin(store.places, one.places).any() for one in held):
                held.append(store)
            else:
                self._show(copy, store)
        copy.waiting = held

    def _show(self, origin: Copy, store: Store) -> None:
        origin.memory.words.view(np.uint8)[store.places] = store.values
        origin.forget(store)
        for copy in origin.memory.copies.values():
            if copy is origin:
                continue
            if self.order == "weak":
                copy.coming.append(store._replace(due=store.due + self._rng.choice(LATE)))
            else:
                copy.see(store)

    def _arrive(self, copy: Copy, now: float) -> None:
        if all(store.due > now for store in copy.coming):
            return
        held: deque[Store] = deque()
        while copy.coming:
            store = copy.coming.popleft()
            if store.due > now or any(np.isin(store.places, one.places).any() for one in held):
                held.append(store)
            else:
                copy.see(store)
        copy.coming = held


class SharedArray(np.ndarray):
    """An array in a process's copy of shared memory; every use of it may be a point."""

    world: Any = None
    copy_of: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self.world = getattr(other, "world", None)
        self.copy_of = getattr(other, "copy_of", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __getitem__(self, key: Any) -> Any:
        touch(self.world)
        found = super().__getitem__(key)
        if isinstance(found, SharedArray) and found.flags.owndata:
            return found.view(np.ndarray)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self.world is not None and self.world.inside:
            self.world.memories.stored(self.copy_of, self.view(np.ndarray), key, self.world.now)
            touch(self.world)

    @property
    def data(self) -> Any:
        """Return the words one by one, in the place of a memoryview."""
        return Words(self)


class Words:
    """A memoryview of a SharedArray."""

    def __init__(self, array: SharedArray):
        self._array = array

    def __getitem__(self, place: int) -> int:
        return self._array[place].item()

    def __setitem__(self, place: int, value: int) -> None:
        self._array[place] = value

    def release(self) -> None:
        """Do nothing."""


def touch(world: Any) -> None:
    """Let another process go on before or after a word is used, now and then."""
    if world is not None and world.inside and world.rng.random() < 0.01:
        world.point("word")


def laid_over(arrays: dict[str, np.ndarray], world: Any, copy: Copy, offsets: Any) -> None:
    """Lay named arrays over a process's copy."""
    for name, array in arrays.items():
        laid = np.ndarray(array.shape, array.dtype, copy.bytes.data, offsets[name])
        shared = laid.view(SharedArray)
        shared.world, shared.copy_of = world, copy
        arrays[name] = shared
