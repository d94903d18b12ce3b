"""The speed of AES-RL: gradient steps, cores, the virtual clock, and the barriers it does without.

    steps     processor seconds of an actor's and a critic's step in a real run (replay draws,
              progress, weights and results included) against a plain PyTorch loop, in turns
    cores     two runs, one per clock, in turns: what they use of the cores, and how far they get
    draws     minibatches gathered from the replay against NumPy's indexing of the same arrays
    stacks    actors refined side by side in batched calls against one after another
    barriers  individuals per second in environments that sleep, against generations with barriers

`paused_run.py` says how contenders take turns. A table that exists keeps its other rows.

    python benchmarks/throughput/aes.py --out benchmarks/results/aes_throughput.csv
"""

import argparse
import csv
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from napping import MEAN_STEPS, SHAPES, STEP_SECONDS
from paused_run import Job, PausedRun

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table
from theory.generation_times import generation_seconds

from drumline.recipes.aes import AES

HERE = Path(__file__).resolve().parent
Row = dict[str, object]
RULES = ("--preset", "paper")
"""Rules, batches and gradient steps of the release, which all kept rows have."""


def steps(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Compare a real run's jobs with the plain loop, per processor second."""
    count = str(options.steps)
    # Those that are not refined say what an episode takes.
    words = [
        "--concurrency",
        "2",
        "--p-desired",
        "0.7",
        "--mean-evaluations",
        "0",
        "--warmup-steps",
        "1000",
    ]
    words += ["--actor-steps", "fixed", "--fixed-actor-steps", count, "--critic-batches", count]
    words += ["--total-steps", "100000000", "--evaluate-every", "0", "--workers", "2"]
    for precision in options.precisions:
        run = PausedRun(
            ["aes", "HalfCheetah-v5", *RULES, *words, "--precision", precision],
            folder / precision,
        )
        plain: dict[str, list[float]] = {"actor": [], "critic": []}
        with run:
            run.begin()
            loops = [_plain(precision) for _ in plain]
            for turn in range(options.turns):
                run.turn(options.seconds)
                # Both at once, as the run has all cores busy; each loop takes steps of both kinds.
                names = sorted(plain, reverse=turn % 2 == 1)
                for name, loop in zip(names, loops, strict=True):
                    _tell(loop, f"{name} {options.seconds / 2}")
                for name, loop in zip(names, loops, strict=True):
                    plain[name].append(float(_answer(loop)))
            run.finish()
        for loop in loops:
            loop.communicate("")
        found = _steps_of(run.jobs(), options.steps)
        for name, ours in found.items():
            yield {
                "part": "steps",
                "measured": f"{name} step",
                "setting": f"HalfCheetah-v5 {precision}",
                "ours": f"{1 / median(ours):.1f}",
                "theirs": f"{1 / median(plain[name]):.1f}",
                "unit": "steps per processor second",
                "ratio": f"{median(plain[name]) / median(ours):.3f}",
                "predicted": "",
                "samples": f"{len(ours)} jobs, {len(plain[name])} turns",
            }


def _steps_of(jobs: list[Job], count: int) -> dict[str, list[float]]:
    """Return processor seconds per gradient step; an episode's share is taken off."""
    cost = AES("HalfCheetah-v5").env_step_cost
    lived: list[float] = []
    found: dict[str, list[float]] = {"actor": [], "critic": []}
    loaded: set[int] = set()
    per_env_step = float("nan")
    for job in jobs:
        learned = job.virtual_nanoseconds > job.env_steps * cost
        first = learned and job.process not in loaded
        if learned:
            loaded.add(job.process)
        if first or job.processor_seconds != job.processor_seconds:
            continue  # a process imports torch for its first gradient steps
        if not learned:
            lived.append(job.processor_seconds / job.env_steps)
            per_env_step = median(lived)
        elif job.env_steps:
            found["actor"].append((job.processor_seconds - job.env_steps * per_env_step) / count)
        else:
            found["critic"].append(job.processor_seconds / count)
    return {name: [took for took in each if took == took] for name, each in found.items()}


def _plain(precision: str) -> "subprocess.Popen[str]":
    words = [sys.executable, str(HERE / "plain_td3.py"), precision, "17", "6", "400", "300"]
    loop = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert _answer(loop) == "ready"
    return loop


def _tell(loop: "subprocess.Popen[str]", line: str) -> None:
    assert loop.stdin is not None
    loop.stdin.write(line + "\n")
    loop.stdin.flush()


def _answer(loop: "subprocess.Popen[str]") -> str:
    assert loop.stdout is not None
    return loop.stdout.readline().strip()


def draws(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Compare whole minibatches, processes and runs aside."""
    import torch
    from td3_steps import filled, gathers, measure

    torch.set_num_threads(1)
    for name, observations, actions in (("HalfCheetah-v5", 17, 6), ("Humanoid-v5", 348, 17)):
        ours, plain = gathers(filled(observations, actions, 200_000), 256)["replay gather"]
        found = measure(ours, plain, options.seconds / 10, 3 * options.turns)
        yield {
            "part": "draws",
            "measured": "replay gather",
            "setting": f"{name}'s shapes, 256 of 200,000",
            "ours": found["ours_per_second"],
            "theirs": found["plain_per_second"],
            "unit": "minibatches per second",
            "ratio": found["ratio"],
            "predicted": "",
            "samples": f"{found['rounds']} rounds",
        }


def stacks(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Say what stacking actors would bring, and whether it keeps each one's bits."""
    from stacked_actors import stacked

    networks = ((17, 400, 300, 6), (348, 256, 256, 17), (4, 64, 64, 1))
    for precision, sizes in product(options.precisions, networks):
        for found in stacked(sizes, [2, 5], precision, options.turns):
            kept = "bits kept" if found.same_bits else "other bits"
            yield {
                "part": "stacks",
                "measured": f"{found.count} actors in one call: {kept}",
                "setting": f"{'-'.join(map(str, sizes))} {precision}",
                "ours": f"{found.stacked_per_second:.1f}",
                "theirs": f"{found.single_per_second:.1f}",
                "unit": "actor steps per processor second",
                "ratio": f"{found.ratio:.3f}",
                "predicted": "",
                "samples": f"{options.turns} rounds",
            }


def cores(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Run both clocks in turns on the default layout, without gradient steps."""
    for env in options.envs:
        words = [env, *RULES, "--p-desired", "0", "--warmup-steps", "0", "--evaluate-every", "0"]
        words += ["--total-steps", "100000000"]
        runs = {
            clock: PausedRun(["aes", *words, "--clock", clock], folder / f"{env}-{clock}")
            for clock in ("virtual", "wall")
        }
        with ExitStack() as running:
            for run in runs.values():
                running.enter_context(run).begin()
            for _ in range(options.turns):
                for run in runs.values():
                    run.turn(options.seconds)
            for run in runs.values():
                run.finish()
        spent = {}
        rates: dict[str, dict[str, float]] = {}
        for clock, run in runs.items():
            spent[clock] = used = run.spent()
            done = run.ended_in_turns(run.jobs())
            # An individual is two jobs; under the wall clock others live other lives, and of
            # other lengths: env steps are the common measure.
            env_steps = sum(job.env_steps for job in done)
            rates[clock] = {
                "individuals": len(done) / 2 / used.seconds,
                "env steps": env_steps / used.seconds,
                "env steps per processor second": env_steps / used.processor_seconds,
            }
        for clock, used in spent.items():
            share = used.processor_seconds / used.seconds / (os.cpu_count() or 1)
            for what, value in (("busy", share), ("runnable", used.runnable_share)):
                yield {
                    "part": "cores",
                    "measured": f"share of core time {what}",
                    "setting": f"{env} p_desired 0, {clock} clock",
                    "ours": f"{value:.4f}",
                    "theirs": "",
                    "unit": "of all cores",
                    "ratio": "",
                    "predicted": "",
                    "samples": f"{used.seconds:.0f} s",
                }
        for name, virtual in rates["virtual"].items():
            wall = rates["wall"][name]
            yield {
                "part": "cores",
                "measured": f"{name}, virtual clock against wall clock",
                "setting": f"{env} p_desired 0",
                "ours": f"{virtual:.3f}",
                "theirs": f"{wall:.3f}",
                "unit": name if "per" in name else f"{name} per second",
                "ratio": f"{virtual / wall:.3f}",
                "predicted": "",
                "samples": f"{spent['virtual'].seconds:.0f} s each",
            }


def barriers(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Time 100 individuals with a process each, with and without barriers between generations."""
    mean = MEAN_STEPS * STEP_SECONDS
    for setting in options.laws:
        law, concurrency = setting.law, setting.concurrency
        processes = min(concurrency, 10)
        rng = np.random.default_rng(0)
        predicted = 10 * mean * generation_seconds(10, processes, SHAPES[law], rng)
        alike = ["--mean-evaluations", "0", "--warmup-steps", "0" if not setting.refined else "400"]
        alike += ["--batch-size", "64"]
        search = ["--concurrency", str(processes), "--clock", "wall", "--critic", "parallel"]
        search += ["--refined-members", "5" if setting.refined else "0", *alike]
        barrier = _hundred("p-cem-rl", setting, search, folder, 10)
        # How long the gradient steps take is not predicted, so with them nothing is.
        known = math.nan if setting.refined else predicted
        yield _barrier_row("p-cem-rl: wall clock", setting, barrier, known, barrier)
        live = ["--concurrency", str(concurrency), "--p-desired", "0.5" if setting.refined else "0"]
        live += ["--env-step-cost", str(round(STEP_SECONDS * 1e9)), *alike]
        both = [("wall", 0), ("virtual", 0)]
        for clock, evaluations in [*both, ("virtual", 5)] if law == "constant" else both:
            more = ["--clock", clock, "--mean-evaluations", str(evaluations)]
            ours = _hundred("aes", setting, [*live, *more], folder, 1)
            name = f"aes: {clock} clock, {evaluations} mean episodes"
            predicted = 100 * mean / concurrency * (1 + evaluations)
            known = math.nan if setting.refined else predicted
            yield _barrier_row(name, setting, ours, known, barrier)


class Napped(NamedTuple):
    """An environment that sleeps, and how many individuals live at a time."""

    law: str
    concurrency: int
    refined: bool
    """Whether half of the individuals are refined by gradient steps."""

    @property
    def words(self) -> str:
        """Name the setting in the table."""
        half = ", half of them refined" if self.refined else ""
        return f"{self.law} durations, concurrency {self.concurrency}{half}"

    @property
    def individuals(self) -> int:
        """Return how many are timed, in whole generations: at least half a minute's worth."""
        return min(400, max(100, 80 * self.concurrency))


def _barrier_row(name: str, setting: Napped, ours: float, predicted: float, barrier: float) -> Row:
    return {
        "part": "barriers",
        "measured": name,
        "setting": setting.words,
        "ours": f"{ours:.3f}",
        "theirs": f"{barrier:.3f}",
        "unit": "seconds per 100 individuals",
        "ratio": f"{barrier / ours:.3f}",
        "predicted": "" if math.isnan(predicted) else f"{predicted:.3f}",
        "samples": f"{setting.individuals} individuals",
    }


def _hundred(method: str, setting: Napped, words: list[str], folder: Path, each: int) -> float:
    """Return the seconds of 100 individuals of average length, once the first 20 were handled."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    # What is timed lies among the first; the others are there because durations are random.
    steps = (setting.individuals + 50) * MEAN_STEPS
    words = [*words, "--evaluate-every", "0", "--evaluate-episodes", "1", "--no-promise"]
    words += ["--total-steps", str(steps), "--hidden", "8"]
    command = [sys.executable, "-m", "drumline", "train", method, f"napping:{setting.law}"]
    command += words
    python = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [*command, "--out", str(out), "--quiet", "--no-tensorboard"],
        env={**os.environ, "PYTHONPATH": python},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    with (out / "metrics.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    ends = (rows[20 // each - 1], rows[(20 + setting.individuals) // each - 1])
    seconds, env_steps = (
        float(ends[1][name]) - float(ends[0][name]) for name in ("wall_seconds", "env_steps")
    )
    # By env steps: the mean of 200 random lengths would add 7 % of noise.
    return seconds / env_steps * MEAN_STEPS * 100


def _law(word: str) -> Napped:
    law, concurrency, *refined = word.split(":")
    return Napped(law, int(concurrency), refined == ["refined"])


def _what(row: Row) -> tuple[object, ...]:
    return row["part"], row["measured"], row["setting"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parts = {
        "steps": steps,
        "draws": draws,
        "stacks": stacks,
        "cores": cores,
        "barriers": barriers,
    }
    parser.add_argument("--parts", nargs="*", default=list(parts), choices=list(parts))
    parser.add_argument("--precisions", nargs="*", default=["fp32", "bf16"])
    parser.add_argument("--envs", nargs="*", default=["HalfCheetah-v5", "Hopper-v5"])
    laws = [f"{law}:{c}" for law in ("exponential", "gamma4") for c in (1, 2, 5, 10, 16)]
    laws += ["constant:5", "exponential:5:refined", "gamma4:5:refined"]
    parser.add_argument(
        "--laws", type=_law, nargs="*", default=[*map(_law, laws)], metavar="LAW:CONCURRENCY"
    )
    parser.add_argument("--steps", type=int, default=500, help="gradient steps of a job")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a turn")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.out.exists():
        with options.out.open() as lines:
            rows = [dict(row) for row in csv.DictReader(lines)]
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts:
            for row in parts[part](options, Path(name)):
                rows = [old for old in rows if _what(old) != _what(row)]
                rows.append({**row, **provenance([0])})
                print(row, flush=True)
                write_table(options.out, rows)


if __name__ == "__main__":
    main()
