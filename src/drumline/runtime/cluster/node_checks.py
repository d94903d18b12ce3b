"""Checks of a node before it takes part: its packages, and a known answer that it computes."""

import os
import pickle
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster.node_messages import HostSpec
from drumline.runtime.process_pool import ProcessPool


def other_packages(spec: HostSpec) -> str:
    """Return in words the packages whose versions differ from the driver's; empty if none."""
    here = versions_of(spec.packages)
    differing = [
        f"{name} {here[name]} instead of {wanted}"
        for name, wanted in spec.packages.items()
        if here[name] != wanted
    ]
    if not differing:
        return ""
    return f"it has {', '.join(differing)}: install the driver's versions there"


def answer_of(factory: bytes, creation_seconds: float, hang_seconds: float) -> bytes:
    """Return a known answer, computed by a worker process on this machine."""
    pool = ProcessPool(
        pickle.loads(factory),
        size=1,
        published=PublishedLayout({}),
        creation_seconds=creation_seconds,
        hang_seconds=hang_seconds,
        answer="",  # the worker's answer is the proof
    )
    try:
        pool.submit([0])
        return pool.completed()[0].result
    finally:
        pool.close()


def other_bits(spec: HostSpec) -> str:
    """Return in words that this node computes other bits than the driver; empty if it does not."""
    proof = spec.proof
    if proof is None:
        return ""
    try:
        answer = answer_of(proof.factory, spec.creation_seconds, spec.hang_seconds)
    except (WorkerError, TaskKilledWorkers, WorkersLost) as error:
        return f"its proof failed: {str(error).splitlines()[0]}"
    if answer == proof.answer:
        return ""
    if processor() == proof.processor:
        return (
            f"it computes other bits than the driver's machine, though both are {processor()}: "
            "the environment may have hidden state that reset(seed=…) does not reset; mend it, or "
            "train with --no-promise"
        )
    return (
        f"it computes other bits ({processor()}) than the driver's machine ({proof.processor}): "
        "use machines of one kind, or --no-promise"
    )


def processor() -> str:
    """Return this machine's processor in words."""
    with suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return the installed version of each package, Python's without its last number."""
    found: dict[str, str] = {}
    for name in names:
        if name == "python":
            found[name] = ".".join(map(str, sys.version_info[:2]))
            continue
        found[name] = "not installed"
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


_OF_ARITHMETIC = ("MKL_", "ATEN_", "DNNL_", "ONEDNN_", "OPENBLAS_CORETYPE", "NPY_")


def arithmetic_variables() -> tuple[tuple[str, str], ...]:
    """Return the environment variables by which libraries choose instructions, and so bits."""
    return tuple(sorted(each for each in os.environ.items() if each[0].startswith(_OF_ARITHMETIC)))


def set_arithmetic_variables(variables: Iterable[tuple[str, str]]) -> None:
    """Give the processes that are started from here the driver's, and no others."""
    for name, _ in arithmetic_variables():
        del os.environ[name]
    os.environ.update(variables)
