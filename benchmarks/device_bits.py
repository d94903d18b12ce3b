"""Does a device compute the same bits for every layout, through kills and resumes?

Each case is a short training of real environments, made as a user would make it: with one process
for each role, with several, and with several whose driver is killed half-way with SIGKILL, resumed
in the first layout. Compared byte by byte are fingerprints, episodes, evaluations, both policies
and the replay; the digest is of all of them. Exit code 1: a case differs, or fails.

    python benchmarks/device_bits.py --out benchmarks/results/device_bits.csv
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from provenance import one_blas_thread, provenance, write_table

from drumline.functional.torch_devices import described, refuse_absent
from drumline.runs.fingerprints import first_difference, read_chain
from drumline.runs.folder import RunError

LASTING = (
    *("fingerprints.csv", "episodes.csv", "evaluations.csv"),
    *("policy-best.safetensors", "policy-last.safetensors"),
)
SECONDS = 240.0
"""A command that takes longer has failed."""
_CENTRAL = ("--executors=1 --actors=1", "--executors=5 --actors=2")
_LOCKSTEP = ("--executors=1", "--executors=4 --halves=2")
_WORKERS = ("--workers=1", "--workers=3")
_PONG = "Pong-v5 --preset=atari --num-envs=16 --alpha=64 --total-steps=16384"
_SHORT = "Pong-v5 --num-envs=16 --alpha=20 --unroll=5 --total-steps=8000"
_FOOTBALL = "gfootball/academy_empty_goal_close-v1 --num-envs=16 --alpha=64 --total-steps=12288"
_CHEETAH = "HalfCheetah-v5 --engine=gymnasium --num-envs=16 --alpha=64 --total-steps=32768"
_REPLAY = "--total-steps=3000 --batch-size=256"
_WARM = f"{_REPLAY} --warmup-steps=600 --evaluate-every=6"


class Case(NamedTuple):
    """A training: its words, and the flags of two layouts."""

    method: str
    words: str
    layouts: tuple[str, str]


CASES: dict[str, Case] = {
    "hts ppo, Pong": Case("hts", _PONG, _CENTRAL),
    "hts a2c, Pong": Case("hts", f"{_SHORT} --learner=a2c", _CENTRAL),
    "hts ppo, Pong, impala-resnet": Case("hts", f"{_PONG} --network=impala-resnet", _CENTRAL),
    "hts ppo, football": Case("hts", _FOOTBALL, _CENTRAL),
    "hts ppo, HalfCheetah": Case("hts", _CHEETAH, ("--executors=1", "--executors=5")),
    "ppo, Pong": Case("ppo", _PONG, _LOCKSTEP),
    "ppo, HalfCheetah": Case("ppo", _CHEETAH, _LOCKSTEP),
    "a2c, Pong": Case("a2c", _SHORT, _LOCKSTEP),
    "td3, HalfCheetah": Case("td3", f"HalfCheetah-v5 {_REPLAY} --random-steps=600", _WORKERS),
    "aes, Hopper": Case("aes", f"Hopper-v5 {_WARM}", _WORKERS),
    "cem-rl, Hopper": Case("cem-rl", f"Hopper-v5 {_WARM}", _WORKERS),
    "p-cem-rl, Hopper": Case("p-cem-rl", f"Hopper-v5 {_WARM}", _WORKERS),
    "erl, Hopper": Case("erl", f"Hopper-v5 {_WARM}", _WORKERS),
}


class Failure(Exception):
    """A command that failed, with what it printed last."""


class Trainer:
    """The commands of a case, on a device."""

    def __init__(self, case: Case, device: str, seed: int, place: Path):
        self._case = case
        self._flags = [f"--device={device}", f"--seed={seed}"]
        self._place = place

    def train(self, name: str, layout: str) -> Path:
        """Train without interruption; returns the run folder."""
        process = self._started(name, layout)
        self._ended(process)
        return self._place / name

    def killed_and_resumed(self, name: str, layouts: tuple[str, str], updates: int) -> Path:
        """Kill the driver when it has made half of so many updates, and resume in the first."""
        folder = self._place / name
        process = self._started(name, f"{layouts[1]} --checkpoint-minutes=0.01")
        until = time.monotonic() + SECONDS
        while _updates(folder) < updates // 2 and time.monotonic() < until:
            if process.poll() is not None:
                raise Failure(f"ended before the kill: {process.communicate()[0][-300:]}")
            time.sleep(0.02)
        process.kill()
        process.communicate()
        if _updates(folder) < updates // 2:
            raise Failure(f"took longer than {SECONDS:g} s to half of the updates")
        if _updates(folder) >= updates:
            raise Failure("all updates were made before the kill")
        words = ["resume", str(folder), *layouts[0].split(), "--quiet", "--no-tensorboard"]
        self._ended(_process(words))
        return folder

    def _started(self, name: str, layout: str) -> "subprocess.Popen[str]":
        words = ["train", self._case.method, *self._case.words.split(), *self._flags]
        words += [*layout.split(), "--evaluate-episodes=1", "--evaluate-max-steps=300"]
        return _process([*words, f"--out={self._place / name}", "--quiet", "--no-tensorboard"])

    def _ended(self, process: "subprocess.Popen[str]") -> None:
        try:
            said = process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0] + f" took longer than {SECONDS:g} s"
        if process.returncode:
            raise Failure(" ".join(said.split())[-600:])


def _process(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "drumline", *words],
        env=one_blas_thread(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _updates(folder: Path) -> int:
    """Return the number of updates that a run has made."""
    try:
        return max(0, (folder / "metrics.csv").read_bytes().count(b"\n") - 1)
    except OSError:
        return 0


def lasting(folder: Path) -> dict[str, str]:
    """Return the digests of a run's files that no clock has a part in."""
    paths = [folder / name for name in LASTING] + sorted(folder.glob("replay/*"))
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file()
    }


def compared(expected: Path, found: Path) -> str:
    """Say where two runs differ; empty: in no byte."""
    old, new = lasting(expected), lasting(found)
    differ = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if not differ:
        return ""
    try:
        chains = [read_chain(run / LASTING[0]) for run in (expected, found)]
        first = first_difference(*chains, whole=True)
        where = f"first at update {first.update}, {first.column}: " if first else ""
    except RunError as error:
        where = f"{error}: "
    return where + ", ".join(differ)


def measured(name: str, device: str, seed: int, place: Path) -> dict[str, object]:
    """Make a case's three runs, and return its row."""
    case = CASES[name]
    trainer = Trainer(case, device, seed, place)
    row: dict[str, object] = {"case": name, "method": case.method, "device": described(device)}
    began = time.perf_counter()
    try:
        first = trainer.train("first", case.layouts[0])
        updates = _updates(first)
        row |= {"updates": updates, "layouts": " | ".join(case.layouts)}
        other = compared(first, trainer.train("other", case.layouts[1]))
        killed = trainer.killed_and_resumed("killed", case.layouts, updates)
        resumed = compared(first, killed)
        said = [f"{what}: {text}" for what, text in (("layout", other), ("kill", resumed)) if text]
        row["verdict"] = "; ".join(said) or "equal"
        joined = "".join(f"{file} {digest}" for file, digest in lasting(first).items())
        row["digest"] = hashlib.sha256(joined.encode()).hexdigest()[:16]
    except Failure as failure:
        row["verdict"] = f"fails: {failure}"
    return {**row, "seconds": f"{time.perf_counter() - began:.0f}", **provenance([seed], "torch")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 3))
    options = parser.parse_args()
    if options.device.startswith("cuda"):
        try:
            refuse_absent(options.device)
        except ValueError as error:
            raise SystemExit(f"nothing can be compared here: {error}") from None
    table: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as aside, ThreadPoolExecutor(options.jobs) as pool:
        places = {name: Path(aside) / f"{index}" for index, name in enumerate(options.cases)}
        rows = pool.map(
            lambda name: measured(name, options.device, options.seed, places[name]), places
        )
        for row in rows:
            print(f"{row['case']}: {row['verdict']} ({row['seconds']} s)", flush=True)
            table.append(row)
            write_table(options.out, table)
    return int(any(row["verdict"] != "equal" for row in table))


if __name__ == "__main__":
    sys.exit(main())
