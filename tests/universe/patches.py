"""Puts a world's stand-ins in the place of the modules that Drumline's rooms have imported."""

import os
import select
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from drumline.api import opened_runs
from drumline.protocols import PublishedLayout, Unwatched
from drumline.runs import append_file, atomic_files, claims, own_files, recorder
from drumline.runtime import (
    board,
    child,
    child_process,
    doorbell,
    fleet,
    links,
    process_pool,
    shared_arrays,
    worker_process,
)
from drumline.runtime.crews import process_crew, role_child, role_process, roles
from universe.kernel import (
    SimOS,
    SimPopen,
    SimQueue,
    SimSelect,
    SimSelector,
    SimSys,
    SimThreading,
    SimTime,
    leave,
)
from universe.memory import laid_over
from universe.world import World

WITH_OS = (
    board,
    child,
    child_process,
    doorbell,
    fleet,
    links,
    process_crew,
    process_pool,
    role_child,
    role_process,
    worker_process,
    append_file,
    atomic_files,
    claims,
    own_files,
)


@contextmanager
def patched(world: World, system: SimOS) -> Iterator[None]:
    """Let Drumline run in a world; outside of simulated processes it runs as ever."""
    undone: list[tuple[Any, str, Any]] = []

    def put(module: Any, name: str, value: object) -> None:
        undone.append((module, name, module.__dict__.get(name)))
        setattr(module, name, value)

    clock = SimTime(world)
    for name, module in list(sys.modules.items()):
        if name.startswith("drumline.") and getattr(module, "time", None) is time:
            put(module, "time", clock)
    for module in WITH_OS:
        if "os" in module.__dict__:
            put(module, "os", system)
    watching = SimSelect(world)
    for module in (doorbell, process_crew):
        if module.__dict__.get("select") is select:
            put(module, "select", watching)
    put(doorbell, "_SELECTABLE", 1 << 30 if world.selects else 0)
    selector = type("Selector", (SimSelector,), {"world": world})
    put(fleet, "selectors", _like(selectors, DefaultSelector=selector))
    mains = {
        "drumline.runtime.child": child.main,
        "drumline.runtime.crews.role_child": role_child.main,
    }
    popen = type("Popen", (SimPopen,), {"world": world, "mains": mains, "system": system})
    put(child_process, "subprocess", _like(subprocess, Popen=popen))
    put(child_process, "_environment", dict)
    put(opened_runs, "Guard", _NoGuard)
    for module in (child, role_child):
        put(module, "sys", SimSys(world))
        put(module, "begin", lambda parent: None)
        put(module, "leave", leave)
        put(module, "no_probe", world.point)
    put(role_child, "open", partial(_opened, system))
    create, attach = _shared(world, system)
    put(shared_arrays.SharedArrays, "create", staticmethod(create))
    put(shared_arrays.SharedArrays, "attach", staticmethod(attach))
    put(roles, "STRETCHES_KEPT", 16)  # most of a crew's memory, and nothing waits for them
    put(recorder, "threading", SimThreading(world))
    put(recorder, "SimpleQueue", type("SimpleQueue", (SimQueue,), {"world": world}))
    put(recorder, "perf_counter", clock.perf_counter)
    put(recorder, "Claim", _claim(world, recorder.Claim))
    try:
        yield
    finally:
        for module, name, value in reversed(undone):
            if value is None and name == "open":
                delattr(module, name)
            else:
                setattr(module, name, value)


def _shared(world: World, system: SimOS) -> tuple[Any, Any]:
    """Arrays of which each process has a copy of its own."""
    made, taken = shared_arrays.SharedArrays.create, shared_arrays.SharedArrays.attach

    def laid(arrays: shared_arrays.SharedArrays, *, new: bool) -> shared_arrays.SharedArrays:
        if world.inside:
            offsets, size = shared_arrays._offsets(arrays.layout)
            facts = os.fstat(arrays.fd)
            key = facts.st_dev, facts.st_ino
            copy = world.memories.copy_of(key, size, world.process, new=new)
            laid_over(arrays.arrays, world, copy, offsets)
        return arrays

    def create(layout: PublishedLayout) -> shared_arrays.SharedArrays:
        return laid(made(layout), new=True)

    def attach(fd: int, layout: PublishedLayout) -> shared_arrays.SharedArrays:
        return laid(taken(os.dup(system.real(fd)), layout), new=False)

    return create, attach


def _claim(world: World, claim: Any) -> Any:
    """The folder's locks are the process's: they end with it."""

    def claimed(folder: Any) -> Any:
        found = claim(folder)
        if world.inside:
            world.process.files += found.descriptors
        return found

    return claimed


class _NoGuard(Unwatched):
    """No guardian process beside a simulated driver: it would be a real one."""

    def __init__(self, hang_seconds: float, creation_seconds: float = 0.0, *, run: bool = False):
        super().__init__()

    def __enter__(self) -> "_NoGuard":
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave."""


def _opened(system: SimOS, fd: int, mode: str) -> Any:
    return open(system.real(fd), mode, closefd=False)


def _like(module: Any, **changes: object) -> Any:
    """Return a module with other values for some names."""

    class Like:
        def __getattr__(self, name: str) -> Any:
            return getattr(module, name)

    like = Like()
    like.__dict__.update(changes)
    return like
