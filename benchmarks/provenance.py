"""Provenance that every benchmark writes beside its numbers: machine, measured code, command."""

import csv
import io
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import drumline
from drumline.runs.atomic_files import replace_file


def provenance(seeds: Sequence[int], *more: str) -> dict[str, str]:
    """Return the columns machine, versions, commit, tree, command and seeds.

    `more`: packages whose versions matter beside NumPy's, Gymnasium's and MuJoCo's.
    """
    commit, tree = measured_code()
    names = ("numpy", "gymnasium", "mujoco", *more)
    return {
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "versions": " ".join([f"python={platform.python_version()}", *map(_pinned, names)]),
        "commit": commit,
        "tree": tree,
        "command": command(),
        "seeds": " ".join(map(str, seeds)),
    }


def measured_code() -> tuple[str, str]:
    """Return the commit of the imported drumline, and whether its sources differ from it.

    The benchmark's own checkout may be another one than that of the measured package.
    """
    package = Path(drumline.__file__).parent
    commit = _git(package, "rev-parse", "--short", "HEAD")
    if not commit:
        return f"drumline {version('drumline')}, no checkout", "unknown"
    return commit, "dirty" if _git(package, "status", "--porcelain", "--", ".") else "clean"


def processor() -> str:
    """Return the processor's name, and which of the instructions it has that decide such rates."""
    try:
        facts = dict(
            (part.strip() for part in line.split(":", 1))
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if ":" in line
        )
    except OSError:
        return platform.processor() or platform.machine()
    flags = facts.get("flags", "").split()
    wide = [name for name in ("avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    return f"{facts.get('model name', '')} ({' '.join([platform.machine(), *wide])})"


def command() -> str:
    """Return the command line; of absolute paths only the name, which is what can be repeated."""
    script = Path(sys.argv[0]).resolve()
    place = Path("benchmarks") / script.relative_to(Path(__file__).resolve().parent)
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return " ".join(["python", str(place), *words])


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write the rows; a column that only some of them have is empty in the others."""
    columns = dict.fromkeys(name for row in rows for name in row)
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_file(path, lines.getvalue().encode())  # a kill leaves the former table or the new one


def one_blas_thread() -> dict[str, str]:
    """Return this environment with BLAS limited to one thread, as Drumline's workers have it."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _git(place: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(place), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _pinned(name: str) -> str:
    return f"{name}={version(name)}"
