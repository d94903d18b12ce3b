"""The process that works off a campaign's queue, at low priority, from checkouts of its own."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from campaign_needs import provide
from campaign_queue import FAILURES, Home, Run, started_at
from run_folders import finished

SHOWN = ("--quiet", "--no-tensorboard")
SEARCHES = ("es", "ars", "cem")
"""Methods whose worker runs episodes side by side, which one in the driver's process does not."""
NICE = 19
"""Niceness of runs, and of their session."""
STOPPED = (130, 143, -signal.SIGINT, -signal.SIGTERM)
"""Exit codes of a run that was asked to stop, as by a shutdown too; it goes on later."""
RETRY_SECONDS = 60.0
"""Pause after a row that could not be written, as while a queue is being edited, or a failure."""


def in_background(words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own at low priority.

    Linux compares niceness within a session alone where it groups processes by session (`sched(7)`:
    autogroup), so runs at the lowest would else take half of the cores from another session.
    """
    with open(log, "ab") as out:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    with suppress(OSError):  # no such groups here, or it has ended
        Path(f"/proc/{process.pid}/autogroup").write_text(str(NICE))
    return process


def layout(method: str, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the layout flags of a run that has one core; of others those that its group names."""
    if any(flag.startswith("--workers=") for flag in flags):
        return SHOWN
    if method in SEARCHES:
        return ("--pool=process", "--workers=1", *SHOWN)
    return ("--pool=inline", *SHOWN)


class Checkout:
    """Drumline's sources at a commit, with an environment that other commits may share."""

    def __init__(self, home: Home, tree: Path, commit: str):
        self.sources = home.path / "checkouts" / commit
        if not (self.sources / "pyproject.toml").exists():
            _check_out(tree, commit, self.sources)
        pinned = (self.sources / "constraints.txt").read_bytes()
        place = home.path / "environments" / hashlib.sha256(pinned).hexdigest()[:12]
        self.python = place / "bin" / "python"
        if not (place / "installed").exists():
            self._install(place)

    def _install(self, place: Path) -> None:
        """Install what the commit pins; sources come from PYTHONPATH, so commits can share it."""
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [self.python, "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, "-c", "constraints.txt", "."], check=True, cwd=self.sources)
        (place / "installed").touch()

    def drumline(self, *words: str) -> list[str]:
        """Return a command of this commit's."""
        return [str(self.python), "-m", "drumline", *words]

    def script(self, script: str, *words: str) -> list[str]:
        """Return the command of a benchmark of this commit's."""
        return [str(self.python), str(self.sources / script), *words]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables: this commit's sources, one thread."""
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        return {**os.environ, **one, "PYTHONPATH": str(self.sources / "src")}


class Worker:
    """Keeps `jobs` runs going until the queue is empty or the campaign is paused.

    `runs` is asked before each begin: a run that ended may have decided a choice.
    """

    def __init__(
        self,
        home: Home,
        runs: Callable[[], Sequence[Run]],
        jobs: int,
        checkout: Callable[[str], Checkout],
        commit: str,
        ended: Callable[[Run, Checkout], None],
        retry_seconds: float = RETRY_SECONDS,
    ):
        self._home = home
        self._runs = runs
        self._jobs = jobs
        self._checkout = checkout
        self._commit = commit
        self._ended = ended
        self._retry_seconds = retry_seconds
        self._later: dict[Run, float] = {}
        """Runs that failed or whose row could not be written, and when to try again."""
        self._running: dict[Run, subprocess.Popen[bytes]] = {}
        self._begun: dict[Run, float] = {}
        self._stopping = False
        self._asked: set[Run] = set()
        """Runs that were asked to stop, and that have not ended since."""

    def work(self, poll_seconds: float = 1.0) -> None:
        """Return when there is nothing left to do, or all runs have stopped after a signal."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            for run in [
                run for run, process in self._running.items() if process.poll() is not None
            ]:
                self._end(run)
            stopping = self._stopping or self._home.paused.exists()
            if stopping:
                self._ask_to_stop()
            elif len(self._running) < self._jobs and (run := self._next()) and self._fits(run):
                # The worker was killed before it knew.
                if self._home.state(run) == "begun" and finished(self._home.folder(run)):
                    self._count_seconds(run)
                    self._record(run)
                else:
                    self._try(run)
                continue
            if not self._running and (
                stopping
                or (self._next() is None and not self._later and not self._of_another_worker())
            ):
                return
            time.sleep(poll_seconds)

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True

    def _ask_to_stop(self) -> None:
        """Ask each run once: a second signal would end it at once, as a second Ctrl-C does."""
        for run, process in self._running.items():
            if run not in self._asked:
                self._asked.add(run)
                process.send_signal(signal.SIGINT)

    def _next(self) -> Run | None:
        now = time.monotonic()
        self._later = {run: at for run, at in self._later.items() if at > now}
        busy = {*self._running, *self._later}
        left = [run for run in self._runs() if run not in busy]
        return next((run for run in left if self._home.state(run) in ("begun", "not begun")), None)

    def _fits(self, run: Run) -> bool:
        """Whether a run can begin beside those that run now."""
        there = [*self._running, *self._of_another_worker()]
        return not there or (
            len(there) < self._jobs and not any(one.group.alone for one in (run, *there))
        )

    def _of_another_worker(self) -> list[Run]:
        """Return the runs that go on since the worker that began them was killed."""
        others = [run for run in self._runs() if run not in self._running]
        return [run for run in others if self._home.state(run) == "running"]

    def _try(self, run: Run) -> None:
        """Begin a run; what prevents it (git, pip, a disk) is told, and tried again later."""
        try:
            self._begin(run)
        except (OSError, subprocess.CalledProcessError):
            traceback.print_exc()
            print(f"{run.name} could not begin", flush=True)
            self._later[run] = time.monotonic() + self._retry_seconds

    def _begin(self, run: Run) -> None:
        """Start a run, or go on with it at the commit that it was begun at."""
        begun = self._home.state(run) == "begun"
        note = self._home.read_note(run)
        commit = str(note.get("commit", self._commit)) if begun else self._commit
        checkout, folder = self._checkout(commit), self._home.folder(run)
        told: list[str] = []
        for need in run.group.needs:
            provided = provide(need, self._home, checkout)
            if provided.missing:
                print(f"{run.group.name} is skipped: {need}: {provided.missing}", flush=True)
                return
            told += provided.flags
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not note:
            shutil.rmtree(folder, ignore_errors=True)  # of a run by this name with other flags
        flags = layout(run.group.method, run.group.flags)
        if run.group.script:
            # A script goes on in its folder by itself.
            command = checkout.script(run.group.script, *run.command(), f"--out={folder}", *told)
        elif begun:
            words = ["resume", str(folder), "--trust-code", "--other-machine", *flags]
            command = checkout.drumline(*words)
        else:
            command = checkout.drumline("train", *run.command(), *flags, f"--out={folder}")
        log = self._home.log(run)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as out:
            process = subprocess.Popen(
                ["nice", f"-n{NICE}", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=checkout.environment,
                process_group=0,
            )
        self._running[run] = process
        own = {"process": process.pid, "started": started_at(process.pid)}
        self._home.write_note(run, commit=commit, **own)
        self._begun[run] = time.perf_counter()

    def _end(self, run: Run) -> None:
        process = self._running.pop(run)
        note = self._home.read_note(run)
        seconds = float(str(note.get("seconds", 0.0)))
        seconds += time.perf_counter() - self._begun.pop(run)
        failures = int(str(note.get("failures", 0)))
        if process.returncode not in (0, *STOPPED) and run not in self._asked:
            failures += 1  # one that is asked to stop while it starts may have no time for more
            self._later[run] = time.monotonic() + self._retry_seconds
        self._asked.discard(run)
        ended = {"process": None, "started": None}
        self._home.write_note(run, **ended, seconds=seconds, failures=failures)
        if process.returncode == 0:
            self._record(run)
        elif failures == FAILURES:
            print(f"{run.name} failed {FAILURES} times: {self._home.log(run)}", flush=True)

    def _count_seconds(self, run: Run) -> None:
        """Note how long a run went on whose worker did not see its end: since its note."""
        note = self._home.read_note(run)
        if note.get("started"):
            began = self._home.note(run).stat().st_mtime
            ended = max(path.stat().st_mtime for path in self._home.folder(run).iterdir())
            seconds = float(str(note.get("seconds", 0.0))) + max(0.0, ended - began)
            self._home.write_note(run, seconds=seconds, process=None, started=None)

    def _record(self, run: Run) -> None:
        """Have a run's row written; a failure is told and tried again, and ends no other run."""
        try:
            self._ended(run, self._checkout(str(self._home.read_note(run)["commit"])))
        except Exception:  # noqa: BLE001 - whatever it was, it is printed
            traceback.print_exc()
            print(f"{run.name} has ended, and its row could not be written", flush=True)
            self._later[run] = time.monotonic() + self._retry_seconds
        else:
            self._home.write_note(run, recorded=True)


def _check_out(tree: Path, commit: str, sources: Path) -> None:
    """Make a clone at a commit; a kill leaves it whole or not there."""
    _git(tree, "worktree", "prune")
    aside = sources.with_name(f"{sources.name}.partial")
    for leftover in (aside, sources):
        shutil.rmtree(leftover, ignore_errors=True)
    clone = ["git", "clone", "--quiet", "--no-checkout", str(tree), str(aside)]
    subprocess.run(clone, check=True)
    _git(aside, "checkout", "--quiet", "--detach", commit)
    aside.rename(sources)


def _git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(place), *words], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().strip()
