"""Packages that some groups of a campaign need besides the project's own, and why they are missing.

They are installed once for each home, at the versions of constraints.txt where it has them. Where
that fails, the groups that need them are skipped with the reason, and `go` tries again.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from campaign_queue import Home

STABLE_BASELINES = "stable-baselines3==2.9.2"
PEER_PACKAGES = (STABLE_BASELINES, "gymnasium[mujoco]", "ale-py", "opencv-python-headless")
FOOTBALL = "gfootball/academy_empty_goal_close-v1"


class Installed(Protocol):
    """The part of a checkout that packages are installed for."""

    python: Path
    sources: Path


@dataclass(frozen=True)
class Provided:
    """Outcome of a need: flags for the run, or one sentence why it is missing."""

    flags: tuple[str, ...] = ()
    missing: str = ""


def provide(need: str, home: Home, checkout: Installed) -> Provided:
    """Install what a group needs, or note why it cannot be had."""
    try:
        flags = _PROVIDERS[need](home, checkout)
    except subprocess.CalledProcessError as error:
        said = error.stdout.decode(errors="replace").strip().splitlines() if error.stdout else []
        reason = said[-1] if said else f"exit code {error.returncode}"
    except OSError as error:
        reason = str(error)
    else:
        home.missing(need).unlink(missing_ok=True)
        return Provided(flags)
    home.missing(need).parent.mkdir(parents=True, exist_ok=True)
    home.missing(need).write_text(f"{reason}\n")
    return Provided(missing=reason)


def try_again(home: Home) -> None:
    """Forget what was missing: it may be there by now."""
    for path in (home.path / "missing").glob("*.txt"):
        path.unlink()


def _cma(home: Home, checkout: Installed) -> tuple[str, ...]:
    look = "import importlib.util as u; print(u.find_spec('cma') is not None)"
    if _run(str(checkout.python), "-c", look).strip() != b"True":
        _pip(checkout.python, checkout.sources, "cma")
    return ()


def _football(home: Home, checkout: Installed) -> tuple[str, ...]:
    """EnvPool's wheels have football on some platforms only."""
    _run(str(checkout.python), "-c", f"import envpool; envpool.make_spec({FOOTBALL!r})")
    return ()


def _stable_baselines(home: Home, checkout: Installed) -> tuple[str, ...]:
    """Stable-Baselines3 in an environment of its own, which Drumline is not installed in."""
    place = home.path / "environments" / STABLE_BASELINES.replace("==", "-")
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        _pip(python, checkout.sources, *PEER_PACKAGES)
        (place / "installed").touch()
    return (f"--peer-python={python}",)


_PROVIDERS = {"cma": _cma, "football": _football, "stable-baselines3": _stable_baselines}


def _pip(python: Path, sources: Path, *packages: str) -> None:
    pip = [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    _run(*pip, "-c", str(sources / "constraints.txt"), *packages)


def _run(*words: str) -> bytes:
    """Return a command's output; what it printed is in the error where it fails."""
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout
