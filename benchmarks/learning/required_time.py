"""Required time: seconds until a score, of `hts`, its rivals and Stable-Baselines3's PPO, in turn.

    python benchmarks/learning/required_time.py required-time CartPole-v1 --score=475 --seed=5 \\
        --total-steps=200000 --peer-python=PEER/bin/python --out=FOLDER

The score is the mean return of the latest 100 training episodes (football: of their scores), with
drawn actions, once the mean after the next update is short of it by a tenth at most. No run makes
an evaluation before that, so no time of evaluations has to be taken out. Seconds are wall time from
the begin of a run, with the creation of its environments and processes and without imports. A run
ends at the score, or at `--total-steps`. Step sizes are constant, so the budget decides nothing
else. Ours have their presets with the processes that they choose themselves, the peer the settings
of `ppo`, with as many threads as cores for images and else one.

With `--bounds`, rows of `hts` and `ppo` have their sum bound, measured just before by
`benchmarks/throughput/hts.py`: 1 / (1 / environment + 1 / forward + 1 / update), each alone on all
cores. `ppo` learns as `hts --lag 0` does.

Each contender's row is kept in FOLDER/rows.csv as it ends; the order turns with the seed. A row
says how many cores were busy with other work: leave the machine alone meanwhile.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from equal_settings import Peer, peer_settings
from goals import in_training, reached
from peers import read_table
from provenance import provenance, write_table
from run_folders import DRUMLINE, resolved
from throughput.hts import parts

PEER = "stable-baselines3-ppo"
CONTENDERS = ("hts", "ppo", "impala", PEER)
POLL_SECONDS = 1.0
BOUND_SECONDS = 10.0
LAGS = {"hts": (), "ppo": ("--lag=0",)}
"""Methods that have a sum bound, and their flags besides as `hts`."""


@dataclass(frozen=True)
class Reached:
    """When a run had a score; nothing where it ended without."""

    env_steps: int | None
    seconds: float | None
    made_env_steps: int
    best: float


class OtherWork:
    """Cores that were busy, on average, with what is neither this process nor its children."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """Return them since the begin; children count once they have ended."""
        seconds = time.perf_counter() - self._began
        other = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        return max(0.0, other / seconds)


def ours(method: str, env: str, flags: Sequence[str], score: float, folder: Path) -> Reached:
    """Train until the score; a run that was stopped on its way begins again."""
    shutil.rmtree(folder, ignore_errors=True)
    column = "score_mean" if env.startswith("gfootball/") else "episode_return_mean"
    words = ["train", method, env, *flags, "--no-anneal", "--evaluate-every=0"]
    words += ["--evaluate-episodes=1", "--quiet", "--no-tensorboard", f"--out={folder}"]
    process = subprocess.Popen([*DRUMLINE, *words], stdin=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
            if (folder / "metrics.csv").exists() and reached(_written(folder, column), score):
                process.send_signal(signal.SIGINT)
                process.wait()
    finally:
        if process.poll() is None:  # stopped here: it must not train beside the next one
            process.send_signal(signal.SIGINT)
            process.wait()
    if process.returncode not in (0, 130):
        sys.exit(f"{method} on {env} ended with exit code {process.returncode}")
    rows = _written(folder, column)
    met = reached(rows, score)
    return Reached(
        int(met["env_steps"]) if met else None,
        float(met["wall_seconds"]) if met else None,
        _made(folder),
        max((float(row["mean"]) for row in rows), default=float("nan")),
    )


def peers(peer: Peer, env: str, flags: Sequence[str], score: float) -> Reached:
    """Train the peer at the settings of `ppo` until the score."""
    config = resolved("ppo", env, [*flags, "--no-anneal"])
    told = peer_settings(config)
    threads = (os.cpu_count() or 1) if told.get("images") else 1
    more = {"score": score, "budget": config["total_steps"], "threads": threads}
    curve = peer.seconds_to_score("ppo", {**told, **more})
    rows = [{"seconds": str(s), "env_steps": f"{n:.0f}", "mean": str(m)} for s, n, m in curve]
    met = reached(rows, score)
    return Reached(
        int(met["env_steps"]) if met else None,
        float(met["seconds"]) if met else None,
        int(rows[-1]["env_steps"]) if rows else 0,
        max((float(row["mean"]) for row in rows), default=float("nan")),
    )


def bound(method: str, env: str, flags: Sequence[str]) -> str:
    """Return the sum bound in env steps per second; nothing for methods that have none."""
    if method not in LAGS:
        return ""
    config = resolved("hts", env, [*flags, "--no-anneal", *LAGS[method]])
    return f"{parts(config, BOUND_SECONDS)['bound']:.1f}"


def order(contenders: Sequence[str], seed: int) -> list[str]:
    """Return the contenders from another one on with each seed: none is always first."""
    first = seed % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def main() -> None:
    """Measure the contenders that have no row yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=("required-time",))
    parser.add_argument("env")
    parser.add_argument("--score", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--total-steps", type=int, required=True)
    parser.add_argument("--contenders", nargs="*", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--bounds", action="store_true", help="measure the sum bounds too")
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if PEER in options.contenders and options.peer_python is None:
        parser.error(f"{PEER} needs --peer-python")
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = read_table(options.out / "rows.csv")
    flags = [f"--seed={options.seed}", f"--total-steps={options.total_steps}"]
    for method in order(options.contenders, options.seed):
        if method in {row["method"] for row in rows}:
            continue
        most = bound(method, options.env, flags) if options.bounds else ""
        other = OtherWork()
        if method == PEER:
            found = peers(Peer(options.peer_python), options.env, flags, options.score)
        else:
            folder = options.out / method
            found = ours(method, options.env, flags, options.score, folder)
        told = provenance([options.seed])
        if method == PEER:
            told["versions"] = Peer(options.peer_python).versions()
        rows.append(
            {
                "env": options.env,
                "score": f"{options.score:g}",
                "method": method,
                "budget_env_steps": options.total_steps,
                "reached_env_steps": "" if found.env_steps is None else found.env_steps,
                "reached_seconds": "" if found.seconds is None else f"{found.seconds:.2f}",
                "made_env_steps": found.made_env_steps,
                "best_mean": f"{found.best:.6g}",
                "other_busy_cores": f"{other.cores():.3f}",
                "sum_bound_env_steps_per_second": most,
                **told,
            }
        )
        print(rows[-1], flush=True)
        write_table(options.out / "rows.csv", rows)


def _written(folder: Path, column: str) -> list[dict[str, str]]:
    """Return the rows with a score; none while the last one is only half written."""
    try:
        rows = in_training(folder, column)
    except (TypeError, ValueError):
        return []
    return [row for row in rows if None not in row.values() and row["mean"] not in ("", "nan")]


def _made(folder: Path) -> int:
    """Return the env steps of a run that has ended."""
    return int(read_table(folder / "metrics.csv")[-1]["env_steps"])


def _busy_seconds() -> float:
    """Seconds that all cores together were busy since the machine's start."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, words)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
