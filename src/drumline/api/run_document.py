"""Contents of config.json besides what the run folder itself adds, and the promise of a run."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from drumline.envs.step_choice import DIFFERS, step_path
from drumline.recipes.chosen_environment import engine_of
from drumline.recipes.methods import method_of
from drumline.recipes.named_objects import arguments_of
from drumline.runs.folder import RunFolder
from drumline.runs.machine import (
    ALWAYS,
    DEVICE,
    SUMS,
    differences,
    machine,
    versions,
    weakly_ordered,
)
from drumline.runtime.cores import usable_cores
from drumline.training.known_answers import ONEDNN, known_answers
from drumline.training.layout import Layout

_LOGGER = logging.getLogger("drumline")

PROMISE = (
    "the same bits for any number of workers, through kills and resumes, "
    "on one CPU type and one set of versions"
)

ON_DEVICE = f"{PROMISE}, and on one GPU model with one CUDA"
"""The promise of a run that computes on a device."""
NO_PROMISE = "no promise"
"""Beginning of the sentence of a run that promises nothing; the reason follows."""


def promises(folder: RunFolder) -> bool:
    """Return whether a run has the promise of the same bits."""
    return not folder.stated("promise").startswith(NO_PROMISE)


def run_document(
    config: Any,
    layout: Layout,
    promise: str,
    tags: Sequence[str] = (),
    facts: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the document of a config whose environment has been made in this process.

    `facts`: what torch computes in this run, beside what the method's packages do.
    """
    more = ("torch",) if facts else ()
    computed_by = dict.fromkeys((*ALWAYS, *method_of(config).packages(config), *more))
    return {
        "config": dataclasses.asdict(config),
        "layout": {**dataclasses.asdict(layout), "cores": str(usable_cores())},
        "step_path": step_path_of(config),
        "promise": promise,
        **({"tags": checked_tags(tags)} if tags else {}),
        "versions": versions((*computed_by, "mujoco", "torch", "envpool")),
        "computed_by": list(computed_by),
        "machine": {**machine(), **_device_of(config), **facts},
        "known_answers": known_answers(computed_by),
    }


def differences_here(document: Mapping[str, Any]) -> str:
    """Return how this machine differs from that of config.json, in one line."""
    facts: dict[str, str] = {}
    if SUMS in document.get("machine", {}):
        from drumline.functional.fused_sums import roundings  # imports torch

        facts[SUMS] = roundings()
    if DEVICE in document.get("machine", {}):
        from drumline.functional.torch_devices import described_here  # imports torch

        facts[DEVICE] = described_here(document["config"].get("device"))
    if found := differences(document, facts):
        return "; ".join(map(str, found))
    return _other_kernels(document.get("known_answers", {})) or _other_library(document)


def _other_kernels(made: Mapping[str, str]) -> str:
    """Return which of these libraries compute other bits here, though their versions are equal."""
    here = known_answers(made)
    others = " and ".join(name for name in made if made[name] != here.get(name))
    if not others:
        return ""
    return (
        f"other kernels of {others}: a variable such as OPENBLAS_CORETYPE, "
        "NPY_DISABLE_CPU_FEATURES or ATEN_CPU_CAPABILITY chooses them"
    )


def _other_library(document: Mapping[str, Any]) -> str:
    """Return that an earlier version made a run's large products by MKL, if here they are oneDNN's.

    Layers of up to 1,024 observations are assumed.
    """
    packages = document.get("computed_by", document.get("versions", {}))
    if ONEDNN in document.get("known_answers", {}) or "torch" not in packages:
        return ""
    config = document["config"]
    if config.get("precision", "fp32") != "fp32" or config.get("device", "cpu") != "cpu":
        return ""
    network, rows = str(config.get("network", "mlp")), config.get("batch_size")
    widest = max([1, *config.get("hidden", ()), *config.get("critic_hidden", ())])
    from drumline.functional.products import onednn_pays, takes_onednn  # imports torch

    if "num_envs" in config:  # MLPs there are NumPy's, and networks of one's own stay as they are
        large = network != "mlp" and ":" not in network and takes_onednn()
    else:
        large = isinstance(rows, int) and onednn_pays(rows, widest, max(1_024, widest))
    return "large products by MKL there, by oneDNN here: an earlier Drumline made it" * large


def _device_of(config: Any) -> dict[str, str]:
    """Return the device that a run computes on, with what else decides its bits there."""
    device = method_of(config).device(config)
    if not device:
        return {}
    from drumline.functional.torch_devices import described_here  # imports torch

    return {DEVICE: described_here(device)}


def step_path_of(config: Any) -> str:
    """Return the words for the step that the environments of a run take in this process.

    Both steps have the same bits; a lean one that has other bits here is left out, with a line.
    """
    if not config.env:
        return "none: calls of an objective"
    prefers = method_of(config).prefers
    engine = engine_of(config, prefers)
    path = step_path(config.env, engine, arguments_of(config))
    if path.startswith(DIFFERS):
        _LOGGER.warning("%s is stepped by %s", config.env, path)
    return path


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of a run; ValueError for one that no table could show."""
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        advice = f": write [{tags!r}]" if isinstance(tags, str) else ""
        raise ValueError(f"tags are a list of words, got {tags!r}{advice}")
    for tag in tags:
        if not isinstance(tag, str) or not tag.isprintable() or tag != tag.strip() or not tag:
            raise ValueError(f"--tags {tag!r} is no word of printable characters")
    return list(dict.fromkeys(tags))


def promise_of(config: Any) -> str:
    """Return the sentence that the run card and config.json begin with."""
    method = method_of(config)
    if reason := method.no_promise(config) or weakly_ordered():
        return f"{NO_PROMISE}: {reason}"
    return ON_DEVICE if method.device(config) else PROMISE
