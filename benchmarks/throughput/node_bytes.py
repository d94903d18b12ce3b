"""Bytes that cross a node's network interface in a generation of es, parameters sent or not.

Two machines, each a network namespace with a Ray node (root and iproute2 are needed). The driver is
on the first; bytes are those of the second machine's interface, both ways, whatever sends them.

    idle_bytes_per_second       of the cluster before the run
    interface_bytes             of a generation, by the interface; Ray's own traffic is in it
    interface_bytes_less_idle   without the idle cluster's share
    *_bytes                     of a generation, by nodes.csv: medians over the generations

    python benchmarks/throughput/node_bytes.py --out benchmarks/results/node_bytes.csv
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

HERE = Path(__file__).resolve().parent
PREFIX, NETWORK, MACHINES = "bytes", "10.79.0", 2
HEAD = f"{NETWORK}.1:6379"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
NETWORKS = {"5k": ["64", "64"], "1M": ["1000", "980"]}
WARM = 5
"""Generations before the first that is counted."""
KINDS = ("tasks", "results", "moments", "parameters", "answers")


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)


def inside(machine: int, words: list[str]) -> list[str]:
    return ["ip", "netns", "exec", f"{PREFIX}{machine}", *words]


def environ() -> dict[str, str]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PYTHONPATH": path}
    return {**os.environ, **own}


def take_down() -> None:
    for machine in range(1, MACHINES + 1):
        name = f"{PREFIX}{machine}"
        found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        for pid in found.stdout.split():
            subprocess.run(["kill", "-9", pid], capture_output=True)
        ip("netns", "del", name, check=False)
        ip("link", "del", f"{PREFIX}-v{machine}", check=False)
    ip("link", "del", f"{PREFIX}-bridge", check=False)


@contextmanager
def machines(workers: int) -> Iterator[None]:
    """Two machines with a Ray node each, which has half of the workers."""
    take_down()
    try:
        ip("link", "add", f"{PREFIX}-bridge", "type", "bridge")
        ip("link", "set", f"{PREFIX}-bridge", "up")
        with tempfile.TemporaryDirectory(prefix="drum", ignore_cleanup_errors=True) as folder:
            Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
            for machine in range(1, MACHINES + 1):
                name, link = f"{PREFIX}{machine}", f"{PREFIX}-v{machine}"
                ip("netns", "add", name)
                ip("link", "add", link, "type", "veth", "peer", "name", "e0", "netns", name)
                ip("link", "set", link, "master", f"{PREFIX}-bridge")
                ip("link", "set", link, "up")
                ip("-n", name, "addr", "add", f"{NETWORK}.{machine}/24", "dev", "e0")
                ip("-n", name, "link", "set", "e0", "up")
                ip("-n", name, "link", "set", "lo", "up")
                where = ["--address", HEAD]
                if machine == 1:
                    where = ["--head", "--port", "6379", "--include-dashboard=false"]
                    where += ["--temp-dir", folder]
                own = ["--node-ip-address", f"{NETWORK}.{machine}"]
                own += ["--num-cpus", str(workers // MACHINES)]
                words = [*RAY, "start", *where, *own, "--object-store-memory", "200000000"]
                subprocess.run(
                    inside(machine, words), check=True, env=environ(), capture_output=True
                )
            yield
    finally:
        take_down()


def on_the_wire() -> int:
    """Return the bytes that have crossed the second machine's interface, both ways."""
    statistics = Path(f"/sys/class/net/{PREFIX}-v{MACHINES}/statistics")
    return sum(int((statistics / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


def updates(folder: Path) -> int:
    rows = folder / "metrics.csv"
    return rows.read_text().count("\n") - 1 if rows.exists() else 0


def reach(run: subprocess.Popen[bytes], folder: Path, update: int) -> tuple[int, float, int]:
    """Wait until an update is recorded; return its number, the time and the interface's bytes."""
    while (found := updates(folder)) < update:
        if run.poll() is not None:
            raise SystemExit(f"the run ended after {found} updates with code {run.returncode}")
        time.sleep(0.02)
    return found, time.perf_counter(), on_the_wire()


def measured(network: str, parameters: str, options: argparse.Namespace) -> dict[str, object]:
    """Train for the generations that are counted, and a few more."""
    began, wire = time.perf_counter(), on_the_wire()
    time.sleep(options.idle_seconds)
    idle = (on_the_wire() - wire) / (time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = [sys.executable, "-m", "drumline", "train", "es", "noticing:Noticing"]
        words += ["--population-size", str(options.episodes), "--obs-stat-probability", "0.2"]
        words += ["--noise-table-size", "4000000", "--total-steps", "1000000000"]
        words += ["--evaluate-every", "0", "--checkpoint-minutes", "60", "--no-tensorboard"]
        words += ["--hidden", *NETWORKS[network], "--quiet", "--out", str(out)]
        words += ["--pool", "ray", "--ray-address", HEAD, "--workers", str(options.workers)]
        words += ["--parameters", parameters]
        run = subprocess.Popen(inside(1, words), env=environ())
        try:
            first, then, before = reach(run, out, WARM)
            last, now, after = reach(run, out, first + options.generations)
        finally:
            run.terminate()
            run.wait()
        count = last - first
        with open(out / "nodes.csv", newline="") as lines:
            rows = [
                row
                for row in csv.DictReader(lines)
                if row["node"].endswith(f".{MACHINES}") and first < int(row["update"]) <= last
            ]
        told = {f"{kind}_bytes": median(int(r[f"{kind}_bytes"]) for r in rows) for kind in KINDS}
    seconds = (now - then) / count
    per_generation = (after - before) / count
    return {
        "network": network,
        "parameters": parameters,
        "nodes": MACHINES,
        "workers": options.workers,
        "episodes": options.episodes,
        "generations": count,
        "seconds_per_generation": f"{seconds:.3f}",
        "idle_bytes_per_second": f"{idle:.0f}",
        "interface_bytes": f"{per_generation:.0f}",
        "interface_bytes_less_idle": f"{per_generation - idle * seconds:.0f}",
        **{name: f"{value:.0f}" for name, value in told.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--idle-seconds", type=float, default=10.0)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    with machines(options.workers):
        for network in NETWORKS:
            for parameters in ("replicas", "broadcast"):
                row = measured(network, parameters, options)
                rows.append({**row, **provenance([0])})
                print(row, flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
