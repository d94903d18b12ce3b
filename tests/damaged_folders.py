"""Run folders damaged at random, and everything that reads a run folder.

`python tests/damaged_folders.py --count 20000` is the campaign: it damages copies of the folders of
v0.1, calls the readers and some commands, and prints how many damages it made. It fails at the
first traceback, at an address space of 1 GiB more than the imports take, at a write outside the
copy, at a child process, and at a module that a damaged folder named.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OLD = Path(__file__).resolve().parent / "v0_1_folders"
METHODS = tuple(sorted(path.name for path in OLD.iterdir() if path.is_dir()))
STRANGER = "stranger:run"
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, -1e308, float("nan"), float("inf")),
    *("", "x", STRANGER, "../../escape", "\x1b[2J", "\u202e", "$\\frac$", "<script>", "é" * 5000),
    *([], {}, [[]], {"a": {"b": []}}, [1, "two"], ["x"] * 1000, {"env": STRANGER}, "\ud800"),
)
CELLS = ("", "x", "nan", "inf", "-1", "1e308", "1" * 5000, "9" * 30, "é", "\x00", '"', "1;2", "\r")


def damage(folder: Path, rng: random.Random) -> str:
    """Damage one file of the folder, sometimes two; return what was done."""
    done = [_damage_one(folder, rng)]
    if rng.random() < 0.2:
        done.append(_damage_one(folder, rng))
    return "; ".join(done)


def _damage_one(folder: Path, rng: random.Random) -> str:
    path = rng.choice(sorted(file for file in folder.rglob("*") if file.is_file()))
    kinds: list[Callable[[Path, random.Random], str]] = [_bytes, _bytes, _whole]
    if path.suffix == ".json":
        kinds += [_json] * 6
    if path.suffix == ".csv":
        kinds += [_cells] * 6
    if path.suffix == ".safetensors":
        kinds += [_tensors] * 6
    if path.parent.name == "replay":
        kinds += [_numbers] * 4
    try:
        words = rng.choice(kinds)(path, rng)
    except (ValueError, struct.error, OverflowError, MemoryError):  # it was damaged before
        words = _bytes(path, rng)
    return f"{path.relative_to(folder)}: {words}"


def _bytes(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                data[at:at] = rng.choice((b"\xff\xfe", b"\n", b"\x1b", b"[" * 100_000, b"\0" * 8))
            case 2:
                del data[at : at + rng.randrange(1, 200)]
            case _:
                data[at:at] = data[at : at + rng.randrange(1, 400)]
    path.write_bytes(data)
    return "bytes"


def _whole(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    kind = rng.randrange(5)
    if kind == 0:
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
        return "truncated"
    if kind == 1:
        path.unlink()
        return "removed"
    if kind == 2:
        path.write_bytes(b"")
        return "emptied"
    other = rng.choice(sorted(file for file in path.parent.iterdir() if file.is_file()))
    if kind == 3:
        other_data = other.read_bytes()
        other.write_bytes(data)
        path.write_bytes(other_data)
        return f"swapped with {other.name}"
    path.write_bytes(data + other.read_bytes())
    return f"continued with {other.name}"


def _json(path: Path, rng: random.Random) -> str:
    document = json.loads(path.read_bytes())
    words = _change(document, rng)
    text = json.dumps(document, indent=1 if path.parent.parent.name == "checkpoints" else 2)
    if rng.random() < 0.1 and document:
        key, value = rng.choice(list(document.items()))
        doubled = json.dumps({key: rng.choice(HOSTILE)})[:-1] + ", "
        text, words = doubled + text.lstrip()[1:], f"{words}, {key} twice ({value!r:.20})"
    if path.name == "manifest.json" and rng.random() < 0.7:
        text = _signed(document)
    path.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
    return words


def _signed(document: dict[str, Any]) -> str:
    """Return a manifest whose own hash is right, as if made with knowledge of the format."""
    import hashlib

    document.pop("manifest_sha256", None)
    digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    return json.dumps({**document, "manifest_sha256": digest}, indent=1)


def _change(document: Any, rng: random.Random) -> str:
    """Change one value or key, at any depth."""
    place, trail = document, ""
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return f"{trail} is empty"
        key = rng.choice(keys)
        trail += f"/{key}"
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            place = inner
            continue
        break
    match rng.randrange(6):
        case 0:
            del place[key]
            return f"{trail} removed"
        case 1 if isinstance(place, dict):
            place[rng.choice(("extra", "\x1b[31m", "", STRANGER))] = rng.choice(HOSTILE)
            return f"a key beside {trail}"
        case 2:
            deep: Any = []
            for _ in range(rng.choice((10, 400))):
                deep = [deep]
            place[key] = deep
            return f"{trail} deep"
        case _:
            place[key] = value = rng.choice(HOSTILE)
            return f"{trail} = {value!r:.40}"


def _cells(path: Path, rng: random.Random) -> str:
    lines = [line.split(",") for line in path.read_text().splitlines()]
    if not lines:
        return "empty"
    line = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines.insert(line, list(rng.choice(lines)))
            words = "a line twice"
        case 1:
            del lines[line]
            words = "a line removed"
        case 2:
            lines[line].append(rng.choice(CELLS))
            words = "a cell more"
        case _:
            place = rng.randrange(len(lines[line]))
            lines[line][place] = cell = rng.choice(CELLS)
            words = f"line {line + 1}, cell {place} = {cell!r:.20}"
    path.write_text("".join(",".join(cells) + "\n" for cells in lines))
    return words


def _tensors(path: Path, rng: random.Random) -> str:
    """Change the header of a tensors file: announced sizes, types, and a policy's description."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.get("__metadata__", {})
    if "drumline" in metadata and rng.random() < 0.8:
        document = json.loads(metadata["drumline"])
        words = "description " + _change(document, rng)
        document.pop("sha256", None)  # as files of the earliest versions lack it
        metadata["drumline"] = json.dumps(document)
    else:
        words = "header " + _change(header, rng)
    text = json.dumps(header).encode()
    announced = rng.choice((len(text), len(text), len(text), 2**62, 0, len(text) + 7))
    path.write_bytes(struct.pack("<Q", announced) + text + data[8 + length :])
    return words


def _numbers(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    at = rng.choice((0, 8, 16, 24))
    number = rng.choice((-1, 0, 1, 2, 2**31, 2**40, 2**62, -(2**63)))
    data[at : at + 8] = struct.pack("<q", number)
    path.write_bytes(data)
    return f"int64 at {at} = {number}"


def readers(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield everything that reads a run folder, by name; each may refuse it in one sentence."""
    from drumline.api.foreign_code import UNTRUSTED
    from drumline.api.opened_runs import resumed_config
    from drumline.api.run import Run
    from drumline.api.stored_policy import environment_of, load_policy
    from drumline.buffers.replay import ReplayShape
    from drumline.buffers.replay_archive import blocks_in
    from drumline.commands.report import _chain, _policies
    from drumline.commands.verify import verify_two
    from drumline.display.comparison import grouped
    from drumline.display.contributions import read_individuals
    from drumline.display.run_data import last_returns, read_run
    from drumline.recipes.methods import with_late_settings
    from drumline.runs.checkpoint import checkpoint_numbers, kept_lengths, read_checkpoint
    from drumline.runs.event_log import logged_workers
    from drumline.runs.fingerprints import read_chain
    from drumline.runs.folder import RunFolder
    from drumline.runs.horizons import after_resume, horizons_of
    from drumline.runs.machine import differences
    from drumline.runs.metrics import read_columns, read_evaluations
    from drumline.runs.next_commands import by_path
    from drumline.runs.policy_files import put_back_best, read_policy
    from drumline.runs.segments import segments_there
    from drumline.runs.timeline import write_timeline
    from drumline.types import Span

    run = Run(RunFolder.open(folder))
    opened = run.folder
    yield "metrics", lambda: run.metrics
    yield "config", lambda: resumed_config(opened, None, UNTRUSTED)
    yield "curves", lambda: grouped([(with_late_settings(opened.document), read_run(folder))])
    yield "individuals", lambda: read_individuals(folder)
    yield "last evaluation", lambda: last_returns(folder)
    yield "evaluations", lambda: read_evaluations(opened.evaluations_csv)
    yield "chain", lambda: read_chain(opened.fingerprints_csv).last()
    yield "columns", lambda: read_columns(opened.metrics_csv)
    yield "facts", lambda: [_chain(opened), *_policies(opened)]
    yield "comparison", lambda: verify_two(opened, opened)
    yield "machine", lambda: differences(opened.document)
    yield "horizons", lambda: after_resume(horizons_of(opened), 3, 100)
    yield "next command", lambda: by_path(opened, "resume")
    yield "lengths", lambda: kept_lengths(opened)
    for number in checkpoint_numbers(opened):
        yield f"checkpoint {number}", lambda number=number: read_checkpoint(opened, number)
    for name in ("best", "last"):
        yield f"policy {name}", lambda name=name: load_policy(read_policy(opened, name), UNTRUSTED)
        yield f"environment {name}", lambda name=name: environment_of(read_policy(opened, name))
    if (folder / "events.jsonl").exists():
        yield "events", lambda: list(logged_workers(folder / "events.jsonl"))
    shape = ReplayShape(60, 4, 1, 8, 8)
    for name in segments_there(opened):
        yield name, lambda name=name: list(blocks_in((folder / name).read_bytes(), 0, shape))
    yield "timeline", lambda: write_timeline(opened.timeline_json, [Span("worker", 0, 0.0, 1.0, 1)])
    yield "best policy", lambda: put_back_best(opened, 1, 1.0)


def read_all(folder: Path) -> Iterator[str]:
    """Call every reader; yield the sentences of those that refuse. Other errors are raised."""
    from drumline.runs.folder import RunError

    try:
        for name, read in readers(folder):
            try:
                read()
            except (RunError, ValueError) as error:
                yield f"{name}: {error}"
            except FileNotFoundError as error:
                if Path(str(error.filename)).exists():
                    raise
                yield f"{name}: {error}"
    except RunError as error:
        yield f"open: {error}"


COMMANDS = (
    ("plot", "--out=damaged.png"),
    ("compare", "--out=damaged.png"),
    ("report", "--out=damaged.html"),
    ("list",),
    ("evaluate", "--episodes=1"),
    ("evaluate", "--episodes=1", "--policy=last", "--sample"),
    ("resume", "--print-config"),
    ("verify", "--updates=1", "--pool=inline"),
    ("resume", "--pool=inline", "--quiet", "--other-machine", "--no-tensorboard"),
)
_BY_CONFIG = 7
"""Commands before this place take time and memory by the folder's files and not by its settings."""


def command_code(folder: Path, words: tuple[str, ...]) -> tuple[int, str]:
    """Run a command on the folder in this process; return its exit code and its complaint."""
    from drumline import cli

    said, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaint):
        try:
            code = cli.run([words[0], str(folder), *words[1:]])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, complaint.getvalue()


def fitting_command(rng: random.Random, words: str) -> tuple[str, ...]:
    """Return a command; a training only where the settings are as they were."""
    return rng.choice(COMMANDS if "config.json" not in words else COMMANDS[:_BY_CONFIG])


class Campaign:
    """Damages made one after the other, each from a seed of its own."""

    def __init__(self, place: Path, commands: float):
        self.place = place
        self.made = 0
        self.refusals = self.called = 0
        self.codes: Counter[int] = Counter()
        self._commands = commands
        (place / "stranger.py").write_text("open('code-was-run', 'w')")

    def once(self, seed: int) -> None:
        """Damage one copy and read it."""
        rng = random.Random(seed)
        method = rng.choice(METHODS)
        folder = self.place / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(OLD / method, folder)
        words = damage(folder, rng)
        self.made += 1
        try:
            self.refusals += len(list(read_all(folder)))
            if rng.random() < self._commands:
                self._command(folder, fitting_command(rng, words))
        except BaseException as error:
            error.add_note(f"seed {seed}: {method}, {words}")
            raise
        strays = {path.name for path in self.place.iterdir()} - _EXPECTED
        assert not strays, f"seed {seed} ({method}, {words}) wrote {strays}"

    def _command(self, folder: Path, words: tuple[str, ...]) -> None:
        code, complaint = command_code(folder, words)
        self.called += 1
        self.codes[code] += 1
        assert code in (0, 1, 2, 3), f"{words}: exit code {code}"
        assert "Traceback" not in complaint, f"{words}: {complaint}"
        if code == 2:
            assert len(complaint.strip("\n").split("\n")) == 1, f"{words}: {complaint!r}"


_EXPECTED = {"run", "temporary", "stranger.py", "damaged.png", "damaged.html"}


def _watch(place: Path) -> None:
    """Raise for a write outside `place`, and for a child process; never undone."""
    inside = (str(place), "/dev/", "/proc/")

    from drumline.runtime import guardian

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and guardian.__file__ in arguments[1]:
            return  # the run's own guardian, which reads nothing of the folder
        if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"):
            raise AssertionError(f"{event} {arguments!r:.100}")
        if event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int):
            writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and not os.path.realpath(arguments[0]).startswith(inside):
                raise AssertionError(f"a write to {arguments[0]}")

    sys.addaudithook(hook)


def _hangs(number: int, frame: object) -> None:
    raise TimeoutError("a reader or command takes a minute")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first damage")
    parser.add_argument("--commands", type=float, default=0.04, help="share with a command")
    parser.add_argument("--keep-going", action="store_true", help="print every failure")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="drumline-damaged-")).resolve()
    os.chdir(place)
    (place / "temporary").mkdir()
    tempfile.tempdir = str(place / "temporary")  # `verify` trains in a temporary folder
    os.fsync = lambda fd: None  # most of the time would be waits for the disk
    os.environ["MPLCONFIGDIR"] = str(place.parent)
    sys.dont_write_bytecode = True
    campaign = Campaign(place, options.commands)
    shutil.copytree(OLD / "hts", place / "run")  # imports everything before memory is counted
    for words in COMMANDS:
        command_code(place / "run", words)
    sizes = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    limit = int(sizes["VmSize"].split()[0]) * 1024 + 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _watch(place)
    signal.signal(
        signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(TimeoutError("hangs"))
    )
    began, failures = time.perf_counter(), 0
    for seed in range(options.first, options.first + options.count):
        if campaign.made % 1000 == 999:
            print(f"{campaign.made + 1} damages …", flush=True)
        signal.alarm(60)
        try:
            campaign.once(seed)
        except (Exception, SystemExit) as error:
            failures += 1
            notes = " ".join(getattr(error, "__notes__", ()))
            print(f"FAILED {type(error).__name__}: {error!s:.300} | {notes}", flush=True)
            if not options.keep_going:
                raise
    signal.alarm(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{campaign.made} damages, {campaign.refusals} refusals by readers, {campaign.called} "
        f"commands with exit codes {dict(sorted(campaign.codes.items()))}, {failures} failures, "
        f"{peak:.0f} MiB at most, {time.perf_counter() - began:.0f} s"
    )
    shutil.rmtree(place)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
