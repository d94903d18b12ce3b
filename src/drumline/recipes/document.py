"""What config.json says about a run besides what the run folder itself adds."""

import dataclasses
import platform
import sys
from importlib.metadata import version as package_version
from typing import Any

from drumline.recipes.layout import Layout

PROMISE = (
    "the same bits for any number of workers, through kills and resumes, "
    "on one CPU type and one set of versions"
)


def run_document(config: Any, layout: Layout, promise: str) -> dict[str, Any]:
    """Return what config.json holds besides what the run folder itself adds."""
    names = ("numpy", "gymnasium", "mujoco", "torch", "envpool")
    return {
        "config": dataclasses.asdict(config),
        "layout": dataclasses.asdict(layout),
        "promise": promise,
        "versions": {"python": platform.python_version(), **{n: _version(n) for n in names}},
        "machine": {"system": sys.platform, "processor": _processor()},
    }


def _version(name: str) -> str:
    try:
        return package_version(name)
    except ModuleNotFoundError:
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
