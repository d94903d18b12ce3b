"""Everything besides the config that a run's bits depend on: versions and the processor."""

import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

SUMS = "sums"
"""Fact of runs whose sums torch may make: how they round."""
DEVICE = "device"
"""Fact of runs that compute on a device: its model, with what else decides its bits there."""
ALWAYS = ("python", "numpy", "gymnasium")
"""Packages that compute in every run."""


class MachineDifference(NamedTuple):
    """One fact that differs between this machine and that of the run."""

    name: str
    made: str
    here: str

    def __str__(self) -> str:
        return f"{self.name} {self.made} there, {self.here} here"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed versions, without importing anything."""
    return {name: _version(name) for name in packages}


def machine() -> dict[str, str]:
    """Return the operating system and the processor's model."""
    return {"system": sys.platform, "processor": _processor()}


def weakly_ordered() -> str:
    """Return why this machine cannot keep the promise: its order of writes; empty on x86-64.

    Processes read shared words that other processes write, without a lock. On x86-64 every process
    sees the writes of another one in their order. Elsewhere only a system call in between, such as
    a doorbell's, orders them, and words that are polled, or found beside those rung for, have none.
    """
    architecture = platform.machine()
    if architecture.lower() in ("x86_64", "amd64", "x86-64"):
        return ""
    return (
        f"this machine is {architecture or 'of an unknown kind'}, and only x86-64 lets every "
        "process see the writes of another one in their order"
    )


def differences(
    document: Mapping[str, Any], facts_here: Mapping[str, str] = MappingProxyType({})
) -> list[MachineDifference]:
    """Return the differences between the packages and machine in config.json and those here.

    `facts_here`: facts of this machine that only other rooms can find.
    """
    # Without `computed_by`, any of the listed versions may be that of a package that computes.
    known = document.get("versions", {})
    made = {name: known.get(name, "unknown") for name in document.get("computed_by", known)}
    here = versions(made)
    facts = document.get("machine", {})
    made |= facts
    here |= machine() | dict(facts_here)
    return [
        MachineDifference(name, made[name], here.get(name, "unknown"))
        for name in made
        if _comparable(name, made[name]) != _comparable(name, here.get(name, ""))
    ]


def _comparable(name: str, version: str) -> str:
    """Return a version for comparison: Python's bug-fix releases change no bit."""
    return ".".join(version.split(".")[:2]) if name == "python" else version


def _version(name: str) -> str:
    if name == "python":
        return platform.python_version()
    try:
        return package_version(name)
    except (PackageNotFoundError, ValueError):  # no name of a package
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def has_bf16() -> bool:
    """Return whether this processor has instructions for bf16 products."""
    return bool(processor_flags() & {"avx512_bf16", "amx_bf16", "bf16", "svebf16"})


def processor_flags() -> set[str]:
    """Return the features that the kernel says this processor has; none where it says nothing."""
    try:
        return flags_in(Path("/proc/cpuinfo").read_text())
    except OSError:
        return set()


def flags_in(text: str) -> set[str]:
    """Return the feature flags that /proc/cpuinfo lists.

    >>> sorted(flags_in("flags : avx2 fma"))
    ['avx2', 'fma']
    """
    for line in text.splitlines():
        name, _, words = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(words.split())
    return set()
