"""The run folder: its location, the names of its files, and its config.json."""

import contextlib
import difflib
import importlib.metadata
import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from drumline.runs.atomic_files import create_file, make_synced_directories, replace_file
from drumline.runs.named_code import code_of_config
from drumline.runs.own_files import TENSORBOARD_FILE, is_there, read_file, refuse_links
from drumline.runs.run_error import RunError
from drumline.runs.strict_json import LARGEST, check_fields, parsed
from drumline.runs.typed_paths import typed

FORMAT = 1
"""Format of config.json; raised when an older drumline could misread a newer folder."""

RUNS = Path("runs")
"""Directory of runs and of their names, below the current directory."""

_CONFIG = "config.json"

LAST = "last"
"""Name of the run created most recently."""

APPEND_ONLY = (
    "metrics.csv",
    "episodes.csv",
    "evaluations.csv",
    "fingerprints.csv",
    "info.csv",
    "nodes.csv",
    "events.jsonl",
    TENSORBOARD_FILE,
)
"""Files that only grow; a checkpoint holds their lengths and a resume cuts them there."""

REQUIRED_KEYS = ("method", "config")

_KINDS = {
    "method": str,
    "config": dict[str, Any],
    "drumline": str,
    "promise": str,
    "store": str,
    "layout": dict[str, Any],
    "step_path": str,
    "versions": dict[str, str],
    "computed_by": list[str],
    "machine": dict[str, str],
    "known_answers": dict[str, str],
    "tags": list[str],
    "horizons": Annotated[list[tuple[int, int]], msgspec.Meta(min_length=1)],
}
_CONFIG_KINDS = {"env": str, "seed": int, "total_steps": int, "num_envs": int}
"""Types of fields that commands read without the method's class."""
_ROLLOUT_KINDS = {"alpha": int, "minibatches": int}
"""Types of those fields of `_ROLLOUT_METHODS`; methods from outside may mean others by them."""
_ROLLOUT_METHODS = ("hts", "a2c", "ppo", "impala")


class RunFolder:
    """One run on disk; made by `create` or `open`."""

    def __init__(self, path: Path, document: dict[str, Any]):
        self.path = typed(path).absolute()  # an environment may change the directory
        self.document = document
        self.shown = as_run(path)
        """Name of the run in messages and commands: its path as the user gave it."""
        self._amendments: dict[str, Any] = {}

    @staticmethod
    def create(
        out: Path | None, *, method: str, env_id: str, seed: int, document: dict[str, Any]
    ) -> "RunFolder":
        """Create a folder at `out` (default: a dated name under runs/) with its config.json."""
        path = _make_dated(method, env_id, seed) if out is None else _make_at(out)
        heading = {
            "format": FORMAT,
            "drumline": _drumline_version(),
            "created": datetime.now(UTC).isoformat(),
            "method": method,
            "env": env_id,
            "seed": seed,
        }
        folder = RunFolder(path, {**heading, **document})
        try:
            create_file(folder.config_json, _written(folder.document))
        except FileExistsError as error:  # of a run that began at the same moment
            raise _occupied(path) from error
        except OSError as error:
            raise _cannot_make(path, error) from error
        return folder

    @staticmethod
    def open(name: str | Path) -> "RunFolder":
        """Open a path, a name under runs/, or `last` (the run created most recently)."""
        return RunFolder.at(_find(str(name)))

    @staticmethod
    def at(path: Path) -> "RunFolder":
        """Open a path, also where a command would take it for a name."""
        refuse_links(typed(path))
        return RunFolder(path, _read_document(path))

    def read_again(self) -> None:
        """Read config.json again: another handle of the same run may have changed it since."""
        self.document = _read_document(self.path)

    def refuse_changed(self) -> None:
        """Raise RunError if another process has changed config.json since this handle read it."""
        if _read_document(self.path) != json.loads(json.dumps(self.document)):
            raise RunError(
                f"another process has changed {self.config_json} since this one read it: resume "
                "the run again"
            )

    @staticmethod
    def open_each(names: Sequence[str]) -> "list[RunFolder]":
        """Open run folders, and all in a folder of runs; one that is named twice counts once."""
        once: dict[Path, RunFolder] = {}
        for name in names:
            path = _find(name)
            inside = [] if is_there(typed(path) / _CONFIG) else runs_in(path)
            for folder in map(RunFolder.at, inside or [path]):
                once.setdefault(folder.path.resolve(), folder)
        return list(once.values())

    def discard_unbegun(self) -> None:
        """Remove the folder of a run that was refused before it wrote any other file."""
        names = {path.name for path in self.path.iterdir()}
        beside = (self.printed_txt, self.policy_tensors("start"))
        if names - {path.name for path in beside} == {self.config_json.name}:
            self.config_json.unlink()
            for path in beside:
                path.unlink(missing_ok=True)
            self.path.rmdir()

    def update_document(self, **keys: Any) -> None:
        """Set keys of config.json atomically: a kill leaves the old document or the new one."""
        document = {**self.document, **keys}
        replace_file(self.config_json, _written(document))
        self.document = document

    def amend_when_claimed(self, **keys: Any) -> None:
        """Set keys of config.json later, in `claimed`: a refused run changes no file."""
        self._amendments.update(keys)

    def claimed(self) -> None:
        """Set the keys that `amend_when_claimed` collected; the folder's one writer calls it."""
        if self._amendments:
            self.read_again()
            self.update_document(**self._amendments)
            self._amendments = {}

    def stated(self, key: str) -> Any:
        """Return a key of config.json that every run has written; RunError if it is missing."""
        if key not in self.document:
            raise RunError(f"{self.config_json} is damaged (no {key!r} in it); give another RUN")
        return self.document[key]

    def named_code(self) -> list[str]:
        """Return the names in config.json that refer to code outside of drumline."""
        return code_of_config(self.document["method"], self.document["config"])

    def named_method(self) -> list[str]:
        """Return the name of the run's method if it refers to code outside of drumline."""
        return code_of_config(self.document["method"], {})

    @property
    def config_json(self) -> Path:
        """All resolved settings, versions and the machine."""
        return self.path / "config.json"

    @property
    def printed_txt(self) -> Path:
        """The newest lines that environments printed."""
        return self.path / "printed.txt"

    @property
    def metrics_csv(self) -> Path:
        """One row per update."""
        return self.path / "metrics.csv"

    @property
    def episodes_csv(self) -> Path:
        """One row per training episode, in the order of its index."""
        return self.path / "episodes.csv"

    @property
    def evaluations_csv(self) -> Path:
        """One row per scheduled evaluation."""
        return self.path / "evaluations.csv"

    @property
    def fingerprints_csv(self) -> Path:
        """The hash chain of the published parameters."""
        return self.path / "fingerprints.csv"

    @property
    def tensorboard_file(self) -> Path:
        """The metrics in TensorBoard's format."""
        return self.path / TENSORBOARD_FILE

    @property
    def checkpoints(self) -> Path:
        """The directory of the kept checkpoints, each in a directory named by its update."""
        return self.path / "checkpoints"

    @property
    def timeline_json(self) -> Path:
        """Work of every process over time, as a Chrome trace."""
        return self.path / "timeline.json"

    @property
    def processes_csv(self) -> Path:
        """One row per process: role, pid, work done, restarts."""
        return self.path / "processes.csv"

    @property
    def card_md(self) -> Path:
        """The run card: the promise, the settings and the outcome on one page."""
        return self.path / "card.md"

    def policy_tensors(self, name: str) -> Path:
        """Return the tensors file of policy `name` (`best`, `last`, or that of the `start`)."""
        return self.path / f"policy-{name}.safetensors"

    def policy_json(self, name: str) -> Path:
        """Return the readable description of policy `name` (`best` or `last`)."""
        return self.path / f"policy-{name}.json"


def as_run(path: Path) -> str:
    """Return a path as RUN of a command, which reads neither as `last` nor as a flag.

    >>> as_run(Path("run")), as_run(Path("last")), as_run(Path("-run"))
    ('run', './last', './-run')
    """
    name = str(path)
    return f"./{name}" if name == LAST or name.startswith("-") else name


def _make_dated(method: str, env_id: str, seed: int) -> Path:
    stem = f"{method}-{env_id}-s{seed}-{datetime.now():%Y%m%d-%H%M%S}"
    stem = stem.replace("/", "-").replace(":", "-")
    try:
        make_synced_directories(typed(RUNS))
        count = 1
        while True:
            path = RUNS / (stem if count == 1 else f"{stem}-{count}")
            # mkdir tests and claims in one step, so two runs of the same second get two folders.
            with contextlib.suppress(FileExistsError):
                typed(path).mkdir()
                return path
            count += 1
    except OSError as error:
        raise _cannot_make(RUNS / stem, error) from error


def _make_at(out: Path) -> Path:
    try:
        make_synced_directories(typed(out))
        occupied = any(typed(out).iterdir())
    except FileExistsError as error:
        raise RunError(f"{out} is a file, not a folder; give another --out") from error
    except OSError as error:
        raise _cannot_make(out, error) from error
    if occupied:
        raise _occupied(out)
    return out


def _occupied(out: Path) -> RunError:
    resume = shlex.join(["drumline", "resume", as_run(out)])
    is_run = is_there(typed(out) / "config.json")
    return RunError(
        f"{out} exists and is not empty; give another --out"
        + (f", or go on with that run: {resume}" if is_run else "")
    )


def _written(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _cannot_make(path: Path, error: OSError) -> RunError:
    reason = error.strerror or str(error)
    return RunError(f"cannot write to {path} ({reason}); give a writable folder with --out")


def _find(name: str) -> Path:
    if "://" in name:
        fetch = shlex.join(["drumline", "fetch", name])
        raise RunError(
            f"{name} is on an object store; make a local copy of that run first: {fetch}"
        )
    if name == LAST:
        newest = newest_run()
        if newest is None:
            raise RunError(
                f"there is no run under {typed(RUNS).resolve()} yet, so RUN cannot be 'last'; give "
                "RUN as a path, or start a run with drumline train"
            )
        return newest
    for path in (Path(name), RUNS / name):
        try:
            if typed(path).is_dir():
                return path
        except OSError as error:  # a name that is too long, or a folder above it without access
            raise RunError(f"cannot read {path} ({error.strerror}); give another RUN") from error
    if is_there(typed(Path(name))):
        raise RunError(f"{name} is a file, not a run folder; give the folder of a run, or of runs")
    known = [str(run.relative_to(RUNS)) for run in _known_runs()]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "give RUN as a path, a name under runs/, or last"
    raise RunError(f"there is no run {name!r} here or under {RUNS}/; {hint}")


def newest_run() -> Path | None:
    """Return the run under runs/ that was created most recently, which the user calls `last`."""
    return max(_known_runs(), key=_created, default=None)


def runs_in(place: Path) -> list[Path]:
    """Return the runs in a folder, as `train --seeds … --out FOLDER` makes them, by name."""
    return sorted(place / each.parent.name for each in typed(place).glob(f"[!.]*/{_CONFIG}"))


def _known_runs() -> list[Path]:
    """Return the runs under runs/, and those in its folders of runs."""
    place = typed(RUNS)
    # A fetch builds its copy in a folder whose name begins with a dot.
    found = [*place.glob(f"[!.]*/{_CONFIG}"), *place.glob(f"[!.]*/[!.]*/{_CONFIG}")]
    return sorted(RUNS / each.parent.relative_to(place) for each in found)


def _created(path: Path) -> tuple[datetime, str]:
    try:
        moment = datetime.fromisoformat(_read_document(path)["created"])
    except (RunError, KeyError, TypeError, ValueError):
        # A damaged newest run stays `last`: opening it then names the damage.
        modified = (typed(path) / "config.json").lstat().st_mtime
        moment = datetime.fromtimestamp(modified, UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC), path.name


def _read_document(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    try:
        document = parsed(read_file(typed(file), LARGEST))
        check_fields(document, _KINDS)
        _require(document, "format", *REQUIRED_KEYS)
        if document["format"] == FORMAT:
            _check_config(document["method"], document["config"])
    except FileNotFoundError as error:
        raise RunError(f"{path} is not a run folder (no config.json); give another RUN") from error
    except OSError as error:
        raise RunError(f"cannot read {file} ({error.strerror}); give another RUN") from error
    except ValueError as error:
        raise RunError(
            f"{file} is damaged ({error}); restore it from a copy, or give another RUN"
        ) from error
    if document["format"] != FORMAT:
        raise RunError(
            f"{path} was made by another version of drumline ({document.get('drumline')}): its "
            f"config.json has format {document['format']!r}, this one ({_drumline_version()}) "
            f"reads {FORMAT}; give another RUN, or install that version"
        )
    return document


def _check_config(method: str, config: dict[str, Any]) -> None:
    """Raise ValueError unless the fields that commands read by name are there and of their type."""
    check_fields(config, _CONFIG_KINDS)
    _require(config, "env")
    if method in _ROLLOUT_METHODS:
        check_fields(config, _ROLLOUT_KINDS)
        _require(config, "num_envs")


def _require(fields: dict[str, Any], *names: str) -> None:
    for name in names:
        if name not in fields:
            raise ValueError(f"no {name!r} in it")


def _drumline_version() -> str:
    try:
        return importlib.metadata.version("drumline")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
