"""What config.json says about a run besides what the run folder itself adds."""

import dataclasses
from typing import Any

from drumline.recipes.layout import Layout
from drumline.recipes.machine import ALWAYS, machine, versions
from drumline.recipes.methods import find_method, method_of

PROMISE = (
    "the same bits for any number of workers, through kills and resumes, "
    "on one CPU type and one set of versions"
)

NO_PROMISE = "no promise"
"""What a promise begins with that is none; the reason follows."""


def run_document(config: Any, layout: Layout, promise: str) -> dict[str, Any]:
    """Return what config.json holds; the config's environment has been made in this process."""
    computed_by = dict.fromkeys((*ALWAYS, *find_method(method_of(config)).packages(config)))
    return {
        "config": dataclasses.asdict(config),
        "layout": dataclasses.asdict(layout),
        "promise": promise,
        "versions": versions((*computed_by, "mujoco", "torch", "envpool")),
        "computed_by": list(computed_by),
        "machine": machine(),
    }
