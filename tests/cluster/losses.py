"""Machines that are lost at given points of the protocol, and a run on which that happens.

    python losses.py METHOD OUT ADDRESS [FLAGS MACHINE:POINT:MANNER …]

A machine, which is a network namespace, is lost by the first of its processes that reaches the
point. Without losses the run is inline. What the pool says goes to stdout.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import doubles
from whole_runs import SMALL_CEM_RL, folder_for

from drumline.display.plain import Silent
from drumline.protocols import Probe
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.methods import method_of
from drumline.runtime.cluster.ray_pool import RayNodes
from drumline.training.run_request import RunRequest

DRIVERS = "drum1"
_PATIENCE_SECONDS = 45.0
"""Time from the start of a process for which it waits; less than a hang."""
CONFIGS: dict[str, Any] = {
    "es": ES(
        env="HalfCheetah-v5",
        total_steps=64_000,
        population_size=16,
        hidden=(8,),
        noise_table_size=1 << 16,
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "aes": AES(
        env="InvertedPendulum-v5",
        total_steps=1200,
        concurrency=4,
        fitness_range=5.0,
        warmup_steps=40,
        replay_size=200,
        batch_size=16,
        critic_batches=30,
        hidden=(8,),
        evaluate_every=7,
        evaluate_episodes=2,
    ),
    "cem-rl": dataclasses.replace(SMALL_CEM_RL, total_steps=1500),
}


@dataclass(frozen=True)
class LosesMachines:
    """Probe factory: each machine is lost once, by the first of its processes at its point.

    The driver's machine waits for the losses, lest it end a short run alone before others are up.
    """

    losses: tuple[tuple[str, str, str], ...]
    """(machine, point, manner)"""
    flags: Path

    def __call__(self) -> Probe:
        own = _machine()
        due = {point: MANNERS[manner] for machine, point, manner in self.losses if machine == own}
        planted = {f"{machine}-{point}" for machine, point, _ in self.losses}
        patience = time.perf_counter() + _PATIENCE_SECONDS

        def probe(point: str) -> None:
            if point in due and doubles.first(self.flags / f"{own}-{point}"):
                due[point]()
            if own == DRIVERS and point == "before-task":
                while time.perf_counter() < patience and planted - set(os.listdir(self.flags)):
                    time.sleep(0.05)

        return probe


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _machine() -> str:
    return _said("ip", "netns", "identify", str(os.getpid()))


def _pids() -> list[int]:
    return [int(word) for word in _said("ip", "netns", "pids", _machine()).split()]


def _signal_raylet(number: int) -> None:
    for pid in _pids():
        with suppress(OSError):
            program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
            if program.endswith(b"/raylet"):
                os.kill(pid, number)


def _kill_everything() -> None:
    for pid in _pids():
        if pid != os.getpid():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


MANNERS: dict[str, Callable[[], Any]] = {
    # `ray stop` itself would find the processes of every machine, which share one list here.
    "stop": lambda: _signal_raylet(signal.SIGTERM),
    "raylet": lambda: _signal_raylet(signal.SIGKILL),
    "all": _kill_everything,
    "cut": lambda: _said("ip", "link", "set", "e0", "down"),
}


class Lines(Silent):
    """Shows messages alone."""

    def message(self, text: str) -> None:
        print(text, flush=True)


def main() -> None:
    name, out, address, *rest = sys.argv[1:]
    config = CONFIGS[name]
    if not rest:
        layout = method_of(config).layout(pool="inline", tensorboard=False)
        request = RunRequest(folder_for(Path(out), config, layout), layout, Lines())
    else:
        flags, *planted = rest
        losses = tuple((m, point, manner) for m, point, manner in map(_split, planted))
        layout = method_of(config).layout(pool="ray", workers=0, tensorboard=False)
        request = RunRequest(
            folder_for(Path(out), config, layout),
            layout,
            Lines(),
            probe_factory=LosesMachines(losses, Path(flags)),
            nodes=RayNodes(address),
        )
    config.build(layout).opened(request).run()


def _split(words: str) -> list[str]:
    return words.split(":")


if __name__ == "__main__":
    from cluster import losses  # what travels must not be of __main__

    losses.main()
