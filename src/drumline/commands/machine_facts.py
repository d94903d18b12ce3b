"""Facts of this machine that decide the speed of a run."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from drumline.runs.machine import has_bf16, machine, processor_flags, weakly_ordered
from drumline.runtime.cores import usable_cores
from drumline.runtime.machine_limits import machine_limits
from drumline.runtime.shared_arrays import available_bytes

PACKAGES = (
    "numpy",
    "torch",
    "gymnasium",
    "mujoco",
    "envpool",
    "ale-py",
    "cma",
    "nevergrad",
)
"""Engines and extras whose presence doctor reports."""


def machine_facts(root: Path = Path("/")) -> dict[str, Any]:
    """Return cores, memory, processor features, libraries and packages; imports torch.

    `root` is the top of the file system that has the limits of the control groups.
    """
    import torch

    cores, limits = usable_cores(root), machine_limits(root)
    available = available_bytes(root)

    flags = processor_flags()
    return {
        "processor": machine()["processor"],
        "no_promise": weakly_ordered(),
        "cores": cores.machine,
        "cores_available": cores.usable,
        "cores_bound": cores.bound,
        "cgroup_cores": limits.cores,
        "features": {name: name in flags for name in ("avx2", "avx512f")},
        "bf16_native": has_bf16(),
        "memory_gib": _gib(_memory_bytes()),
        "memory_limit_gib": None if limits.memory is None else _gib(limits.memory),
        "memory_limit_file": limits.memory_file,
        "memory_available_gib": None if available is None else _gib(available),
        "shared_memory_free_gib": _free("/dev/shm"),
        "disk_free_gib": _free("."),
        "display": os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or "",
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_blas": "MKL" if torch.backends.mkl.is_available() else "other",
        "packages": {name: _version(name) for name in PACKAGES},
    }


def warnings(facts: dict[str, Any]) -> list[str]:
    """Return one sentence for each fact that makes runs slow, unrepeatable or impossible here."""
    said: list[str] = []
    if facts["no_promise"]:
        said.append(f"no promise of the same bits: {facts['no_promise']}")
    if not facts["bf16_native"]:
        said.append("this processor has no bf16 instructions: --precision bf16 may be slow")
    if facts["disk_free_gib"] is not None and facts["disk_free_gib"] < 2:
        said.append(f"only {facts['disk_free_gib']:.1f} GiB of disk are free here")
    if not facts["packages"]["envpool"]:
        said.append("EnvPool is not installed: environments are Gymnasium's")
    return said


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free(path: str) -> float | None:
    return _gib(shutil.disk_usage(path).free) if Path(path).exists() else None


def _gib(count: int) -> float:
    return round(count / 2**30, 1)
