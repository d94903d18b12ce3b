"""A training run that stands still while its contender is measured, and what it took in between.

Runs of a minute cannot be repeated often, and on a shared machine two of them never meet the same
neighbours. So all contenders are begun, and take turns of some seconds: the others are stopped
(SIGSTOP), which no run can tell from a slow machine. Processor time is the kernel's
(`/proc/PID/schedstat`), read 20 times a second: also what each job of a run took.
"""

import json
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil

SAMPLE_SECONDS = 0.05


class Spent(NamedTuple):
    """Processor time that all processes of a run took in its turns."""

    seconds: float
    """Of the turns."""
    processor_seconds: float
    runnable_share: float
    """Share of the cores' time for which there was work to do, by neighbours undisturbed."""


class Job(NamedTuple):
    """One job of a logical worker, from the timeline and the log of events."""

    role: str
    process: int
    ended: float
    env_steps: int
    virtual_nanoseconds: int
    processor_seconds: float


class PausedRun:
    """`drumline train` in processes of its own, that work in turns only."""

    def __init__(self, words: list[str], out: Path, env: dict[str, str] | None = None):
        self.out = out
        command = [sys.executable, "-m", "drumline", "train", *words, "--out", str(out)]
        self._process = subprocess.Popen(
            [*command, "--quiet", "--no-tensorboard"],
            env=env,
            stdout=subprocess.DEVNULL,
        )
        self._turns: list[tuple[float, float]] = []
        self._samples: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
        self._pids: list[int] = []

    def __enter__(self) -> "PausedRun":
        """Begin when the others do."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave no process, whatever happened."""
        if self._process.poll() is None:
            self._signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(60)

    def begin(self, seconds: float = 120.0) -> None:
        """Run until the first event was handled, and stop."""
        deadline, log = time.perf_counter() + seconds, self.out / "events.jsonl"
        while not (log.exists() and log.stat().st_size):
            if self._process.poll() is not None or time.perf_counter() > deadline:
                raise RuntimeError(f"{self._process.args} handled no event")
            time.sleep(0.05)
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        """Work for so long."""
        self._signal(signal.SIGCONT)
        began = now = time.perf_counter()
        while now < began + seconds:
            for pid in self._pids:
                self._sample(pid, now)
            time.sleep(SAMPLE_SECONDS)
            now = time.perf_counter()
        for pid in self._pids:
            self._sample(pid, now)
        self._turns.append((began, now))
        self._signal(signal.SIGSTOP)

    def finish(self) -> None:
        """End the run as Ctrl-C does; a benchmark in the background would ignore that itself."""
        self._signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(60)

    def spent(self, skipped: int = 1) -> Spent:
        """Return what the turns after the first `skipped` took."""
        seconds = processor = runnable = 0.0
        cores = os.cpu_count() or 1
        for began, ended in self._turns[skipped:]:
            seconds += ended - began
            demand: dict[float, float] = defaultdict(float)
            lasted: dict[float, float] = {}
            for samples in self._samples.values():
                within = [s for s in samples if began <= s[0] <= ended]
                for (then, ran, waited), (now, later_ran, later_waited) in pairwise(within):
                    processor += (later_ran - ran) * 1e-9
                    demand[now] += (later_ran - ran + later_waited - waited) * 1e-9
                    lasted[now] = now - then
            runnable += sum(min(cores * lasted[now], wanted) for now, wanted in demand.items())
        return Spent(seconds, processor, runnable / (cores * seconds))

    def jobs(self) -> list[Job]:
        """Return the jobs of all turns that ended; `finish` comes first."""
        timeline = json.loads((self.out / "timeline.json").read_bytes())
        spans = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
        origin = timeline["otherData"]["origin_seconds"]
        pids = self._worker_pids()
        process = {s["ts"]: pids[s["tid"]] for s in spans if s["cat"] == "worker"}
        lines = (self.out / "events.jsonl").read_text().splitlines()
        events: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for event in map(json.loads, lines):
            events[event["worker"]].append(event)
        concurrency = json.loads((self.out / "config.json").read_bytes())["config"]["concurrency"]
        found: list[Job] = []
        for role in ("logical worker", "logical critic"):
            tracks = sorted({s["tid"] for s in spans if s["cat"] == role})
            for track in tracks:
                own = sorted(
                    (s for s in spans if s["cat"] == role and s["tid"] == track),
                    key=lambda s: s["ts"],
                )
                handled = events[concurrency if role == "logical critic" else track]
                # A logical worker's jobs follow each other: the k-th span is the k-th event.
                for span, event in zip(own, handled, strict=False):
                    start = origin + span["ts"] * 1e-6
                    end = start + span["dur"] * 1e-6
                    pid, virtual = process[span["ts"]], event["end"] - event["start"]
                    took = self._processor_seconds(pid, start, end)
                    found.append(Job(role, pid, end, event["env_steps"], virtual, took))
        return sorted(found, key=lambda job: job.ended)

    def ended_in_turns(self, jobs: list[Job], skipped: int = 1) -> list[Job]:
        """Return those that ended in the turns after the first `skipped`."""
        turns = self._turns[skipped:]
        return [job for job in jobs if any(b <= job.ended <= e for b, e in turns)]

    def _processor_seconds(self, pid: int, start: float, end: float) -> float:
        samples = self._samples.get(pid, [])
        if not samples or start < samples[0][0] or end > samples[-1][0] + SAMPLE_SECONDS * 2:
            return float("nan")
        return self._ran_by(samples, end) - self._ran_by(samples, start)

    @staticmethod
    def _ran_by(samples: list[tuple[float, int, int]], at: float) -> float:
        place = min(max(1, bisect_left(samples, (at,))), len(samples) - 1)
        (then, ran, _), (now, later, _) = samples[place - 1], samples[place]
        share = min(1.0, max(0.0, (at - then) / (now - then)))
        return (ran + share * (later - ran)) * 1e-9

    def _worker_pids(self) -> dict[int, int]:
        rows = (self.out / "processes.csv").read_text().splitlines()[1:]
        fields = [row.split(",") for row in rows]
        return {int(f[1]): int(f[2]) for f in fields if f[0] == "worker"}

    def _sample(self, pid: int, now: float) -> None:
        try:
            ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return  # a child of the start that has done its work
        self._samples[pid].append((now, int(ran), int(waited)))

    def _signal(self, number: int) -> None:
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._pids = [self._process.pid, *(child.pid for child in children)]
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
