"""`drumline doctor [ENV]`."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.functional.cluster_speed import Cluster
    from drumline.recipes.method import Method


@dataclass(frozen=True)
class DoctorFlags:
    """Flags of `drumline doctor`."""

    method: str = "hts"
    """Method whose preset for ENV is measured."""
    bf16: bool = False
    """Time it with `--precision bf16`."""
    nodes: int = 0
    """Say which of `--parameters broadcast` and `replicas` is cheaper for es or ars on a cluster of
    this many nodes; 0: do not."""
    node_cores: int = 0
    """With --nodes: cores of each node; 0: as many as this machine has."""
    gigabits: float = 10.0
    """With --nodes: rate of each node's network in Gbit/s."""
    json: bool = False
    """Print one JSON object."""


def command(line: CommandLine) -> int:
    """Describe this machine and predict the speed of a method's preset on it."""
    flags = line.flags("[ENV]", {"doctor": DoctorFlags()})["doctor"]
    if len(line.names) > 1:
        raise WrongUse(f"doctor takes one ENV, got {' '.join(line.names)}")
    _refuse_unusable(flags, line.names)
    from drumline.api.foreign_code import importable_cwd
    from drumline.recipes.methods import find_method

    importable_cwd()
    find_method(flags.method)
    from drumline.commands.device_facts import device_facts, why_none
    from drumline.commands.machine_facts import machine_facts, warnings

    facts, measured = machine_facts(), None
    facts |= {"devices": device_facts(), "no_device": why_none()}
    if line.names:
        measured = measure(flags.method, line.names[0], bf16=flags.bf16, cluster=_cluster(flags))
    answer = {"machine": facts, "warnings": warnings(facts), "measured": measured}
    if flags.json:
        print(json.dumps(answer))
    else:
        print("\n".join(_page(answer)))
    return 0


def _refuse_unusable(flags: DoctorFlags, names: Sequence[str]) -> None:
    for name, value in (("nodes", flags.nodes), ("node-cores", flags.node_cores)):
        if value < 0:
            raise WrongUse(f"--{name} must be 0 or more, got {value}")
    if not flags.gigabits > 0:
        raise WrongUse(f"--gigabits must be above 0, got {flags.gigabits}")
    if flags.nodes and not names:
        raise WrongUse("--nodes needs an ENV, whose preset has the numbers of parameters")


def _cluster(flags: DoctorFlags) -> "Cluster | None":
    if not flags.nodes:
        return None
    from drumline.functional.cluster_speed import Cluster
    from drumline.runtime.cores import available_cores

    return Cluster(flags.nodes, flags.node_cores or available_cores(), flags.gigabits * 1e9)


def measure(
    method: str, env_id: str, *, bf16: bool = False, cluster: "Cluster | None" = None
) -> dict[str, Any]:
    """Time the pieces of a method's preset and predict its speed on each layout."""
    from drumline.recipes.methods import find_method

    found = find_method(method)
    config = found.made(env_id)
    if bf16:
        if not hasattr(config, "precision"):
            raise WrongUse(
                f"--bf16: {method} takes no gradients of a network, or has no --precision"
            )
        config = dataclasses.replace(config, precision="bf16")
    return measured(found, config, cluster)


def measured(found: "Method", config: Any, cluster: "Cluster | None" = None) -> dict[str, Any]:
    """Time the pieces of a config and predict its speed on each layout."""
    from drumline.api.evaluation import telling
    from drumline.commands.layout_predictions import pieces_of
    from drumline.runtime.cores import available_cores

    one_thread()
    noise = getattr(config, "noise", "")
    if not found.outside and hasattr(config, "noise"):
        # The policy is timed without its noise table, which takes seconds to fill.
        config = dataclasses.replace(config, noise="counter")
    cores = available_cores()
    layout = found.layout()
    recipe = found.built(config, found.layout(pool="inline"))
    costs = None
    if cluster is not None:
        from drumline.commands.cluster_costs import costs_on
        from drumline.training.generational_run import GenerationalRecipe

        if not isinstance(recipe, GenerationalRecipe) or recipe.replica is None:
            raise WrongUse(
                f"--nodes is about --parameters, a flag of es and ars, not of {found.name}"
            )
        costs = costs_on(cluster, recipe, noise)
    with telling(lambda: f"the timing of {config.env}"):
        pieces = pieces_of(recipe, layout, cores, known=not found.outside)
    predicted = [pieces.predict(count, cores)._asdict() for count in pieces.workers]
    # Of equally fast counts the method's own, else the smallest.
    best = max(
        predicted, key=lambda row: (row["env_steps_per_second"], row["workers"] == pieces.own)
    )
    return {
        "method": found.name,
        "env": config.env,
        "engine": pieces.environment.engine,
        "precision": getattr(config, "precision", "fp32"),
        "times": pieces.times,
        "predicted": predicted,
        "bottleneck": best["bottleneck"],
        "recommended": f"--workers {best['workers']}",
        "virtual_costs": _virtual_costs(getattr(recipe, "costs", None), pieces.times),
        "not_timed": pieces.not_timed,
        "cluster": costs,
    }


def one_thread() -> None:
    """Limit torch to one thread, as in every worker, executor and (by default) learner."""

    from drumline.functional.torch_threads import limit_torch

    limit_torch(1)


def _virtual_costs(clocked: Any, times: dict[str, float]) -> dict[str, dict[str, float | None]]:
    """Return measured costs beside those of the virtual clock; none without gradient steps."""
    if "actor_step_seconds" not in times:
        return {}
    measured = {
        "env_step": times["step_seconds"] + times["forward_1_seconds"],
        "actor_step": times["actor_step_seconds"],
        "critic_step": times["critic_step_seconds"],
    }
    costs: dict[str, dict[str, float | None]] = {}
    for name, seconds in measured.items():
        preset = getattr(clocked, name, None)  # in nanoseconds
        costs[f"{name}_cost"] = {
            "measured_microseconds": seconds * 1e6,
            "preset_microseconds": None if preset is None else preset * 1e-3,
        }
    return costs


def _page(answer: dict[str, Any]) -> list[str]:
    from drumline.commands.device_facts import device_lines

    facts, measured = answer["machine"], answer["measured"]
    features = [name for name, there in facts["features"].items() if there]
    features += ["bf16"] if facts["bf16_native"] else []
    absent = [name for name, number in facts["packages"].items() if not number]
    there = [f"{name} {number}" for name, number in facts["packages"].items() if number]
    lines = [
        f"processor   {facts['processor']} ({' '.join(features) or 'no vector features known'})",
        f"cores       {_cores(facts)}",
        f"memory      {_memory(facts)}",
        f"free        /dev/shm {facts['shared_memory_free_gib']} GiB, "
        f"disk {facts['disk_free_gib']} GiB",
        f"torch       {facts['torch_threads']} threads, {facts['torch_capability']}, "
        f"BLAS {facts['torch_blas']}",
        *device_lines(facts["devices"], facts["no_device"]),
        f"packages    {', '.join(there)}",
        f"missing     {', '.join(absent) or 'none'}",
        f"display     {facts['display'] or 'none: enjoy writes an mp4'}",
    ]
    lines += [f"! {text}" for text in answer["warnings"]]
    if measured is None:
        return [*lines, "next: drumline doctor CartPole-v1"]
    return [*lines, "", *_measured_lines(measured)]


def _cores(facts: dict[str, Any]) -> str:
    bound = f", by {facts['cores_bound']}" if facts["cores_bound"] else ""
    return f"{facts['cores_available']} of {facts['cores']} available{bound}"


def _memory(facts: dict[str, Any]) -> str:
    words = f"{facts['memory_gib']} GiB"
    if facts["memory_available_gib"] is not None:
        words = f"{facts['memory_available_gib']} of {words} available"
    if facts["memory_limit_gib"] is not None:
        words += f", by the limit of {facts['memory_limit_gib']} in {facts['memory_limit_file']}"
    return words


def _measured_lines(measured: dict[str, Any]) -> list[str]:
    from drumline.display.glyphs import count

    typed = "" if measured["precision"] == "fp32" else f" --precision {measured['precision']}"
    lines = [f"{measured['method']} on {measured['env']} ({measured['engine']}){typed}"]
    for name, seconds in measured["times"].items():
        lines.append(
            f"  {name.removesuffix('_seconds').replace('_', ' '):<30}{seconds * 1e6:>12.1f} µs"
        )
    for name, row in measured["virtual_costs"].items():
        preset = row["preset_microseconds"]
        beside = "" if preset is None else f", preset {preset:.1f} µs"
        lines.append(f"  {name:<16} measured {row['measured_microseconds']:.1f} µs{beside}")
    if measured["not_timed"]:
        lines.append(f"  not timed: {measured['not_timed']}")
    lines.append("  about, from the measured parts:")
    lines += [
        f"    --workers {row['workers']:<3} {count(row['env_steps_per_second']):>7} env steps/s"
        f"  bound by {row['bottleneck']}"
        for row in measured["predicted"]
    ]
    if measured["cluster"] is not None:
        lines += _cluster_lines(measured["cluster"])
    command = f"drumline train {measured['method']} {measured['env']}{typed}"
    command += f" {measured['recommended']}"
    return [*lines, f"next: {command}"]


def _cluster_lines(cluster: dict[str, Any]) -> list[str]:
    nodes = f"{cluster['nodes']} nodes of {cluster['node_cores']} cores"
    lines = [
        f"  from one generation to the next on {nodes}, {cluster['gigabits_per_second']:g} Gbit/s:"
    ]
    for name in ("broadcast", "replicas"):
        way = cluster[name]
        lines.append(
            f"    --parameters {name:<9} {way['bytes_sent'] / 1e6:>10.3f} MB sent"
            f" {way['seconds'] * 1e3:>10.3f} ms"
            + ("  cheaper" if name == cluster["cheaper"] else "")
        )
    return lines
