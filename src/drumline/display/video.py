"""Episodes to watch: in a window, or as a film, also on a machine without a display."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline.display.film_grid import FilmGrid
from drumline.display.window import Window

_BACKENDS = ("egl", "osmesa")
_GIF_FPS, _GIF_WIDTH = 25, 320
_PACKAGES = "Debian and Ubuntu: apt install libegl1 for egl, libosmesa6 for osmesa"


class VideoError(RuntimeError):
    """Frames could not be drawn or written: one sentence with the cure."""


class Shown(NamedTuple):
    """Episodes that were shown or filmed."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    """Agent decisions."""
    closed: bool = False
    """Whether the user closed the window before an episode's end; that episode is not counted."""


def display_available(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Return whether a window can be opened here, according to the environment variables."""
    if platform.startswith(("win", "darwin")):
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def choose_offscreen_backend(environ: MutableMapping[str, str]) -> str | None:
    """Set MUJOCO_GL to a backend that works and return it; call it before importing MuJoCo.

    None if there is a display, the user has chosen a backend, or none works. Each backend is tried
    in a process of its own, because the first one imported prevents all others, even if it fails.
    """
    if display_available(environ):
        return None
    environ.setdefault("SDL_VIDEODRIVER", "dummy")  # silences pygame about the missing display
    environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if environ.get("MUJOCO_GL"):
        return None
    for backend in _BACKENDS:
        if _backend_works(backend, environ):
            environ["MUJOCO_GL"] = backend
            return backend
    return None


def record_episodes(
    env: Any,
    act: Callable[[Any], Any],
    seeds: Sequence[int],
    out: Path,
    *,
    begin: Callable[[int, int], None] = lambda number, seed: None,
    max_steps: int | None = None,
    grid: bool = False,
) -> Shown:
    """Write episodes of a Gymnasium environment with `render_mode="rgb_array"` as one mp4 or gif.

    There is one frame per observation, in a gif at most 25 a second and 320 pixels wide.
    `begin(number, seed)` is called before each episode's reset. In a `grid` the episodes are side
    by side and begin together, else they follow one another.
    """
    if env.render_mode != "rgb_array":
        raise VideoError(f'the environment must be made with render_mode="rgb_array": {env}')
    _refuse_file(out)
    with ExitStack() as stack:
        writers: list[Any] = []
        cells = FilmGrid(len(seeds)) if grid else None
        if cells is not None:
            stack.callback(cells.close)

        def begin_cell(number: int, seed: int) -> None:
            begin(number, seed)
            if cells is not None:
                cells.begin()

        def draw() -> bool:
            frame = _frame(env)
            if not writers:  # only now, so that there is no file without a first frame
                writers.append(stack.enter_context(_writer(out, env)))
            with _full_disk(out):
                (cells or writers[0]).append_data(frame)
            return False

        shown = _play(env, act, seeds, begin_cell, max_steps, draw)
        if cells is not None:
            with _full_disk(out):
                cells.write(writers[0])
        return shown


@contextmanager
def _full_disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # imageio's OSError has no errno, but all of ffmpeg's output
        raise VideoError(f"cannot write {out}: ffmpeg gave up (is the disk full?)") from error


def show_episodes(
    env: Any,
    act: Callable[[Any], Any],
    seeds: Sequence[int],
    *,
    begin: Callable[[int, int], None] = lambda number, seed: None,
    max_steps: int | None = None,
) -> Shown:
    """Run episodes of a Gymnasium environment with `render_mode="human"`, which draws itself."""
    if env.render_mode != "human":
        raise VideoError(f'the environment must be made with render_mode="human": {env}')
    return _play(env, act, seeds, begin, max_steps, Window(env).closed)


def _play(
    env: Any,
    act: Callable[[Any], Any],
    seeds: Sequence[int],
    begin: Callable[[int, int], None],
    max_steps: int | None,
    drawn: Callable[[], bool],
) -> Shown:
    """Run the episodes; `drawn` is called at each observation and returns whether to stop."""
    returns: list[float] = []
    lengths: list[int] = []
    for number, seed in enumerate(seeds):
        begin(number, seed)
        observation, _ = env.reset(seed=seed)
        closed = drawn()
        episode_return, length, over = 0.0, 0, False
        while not (over or closed) and (max_steps is None or length < max_steps):
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            episode_return += float(reward)
            length += 1
            over = bool(terminated or truncated)
            closed = drawn()
        if closed and not over:
            return Shown(tuple(returns), tuple(lengths), closed=True)
        returns.append(episode_return)
        lengths.append(length)
        if closed:
            return Shown(tuple(returns), tuple(lengths), closed=number + 1 < len(seeds))
    return Shown(tuple(returns), tuple(lengths))


def _refuse_file(out: Path) -> None:
    if out.suffix not in (".mp4", ".gif"):
        raise VideoError(f"a film is an .mp4 or .gif file, got {out}")
    if not os.access(out.parent, os.W_OK):
        raise VideoError(f"cannot write {out}: its folder does not exist or is read-only")


class _Gif:
    """Frames of a gif: every k-th, with every m-th pixel, as browsers and mail can show them."""

    def __init__(self, out: Path, fps: float):
        from imageio import v2 as imageio

        self._step = max(1, round(fps / _GIF_FPS))
        self._count = 0
        duration = 1000 * self._step / fps
        self._writer = imageio.get_writer(out, format="GIF", mode="I", duration=duration, loop=0)

    def append_data(self, frame: np.ndarray) -> None:
        """Take one frame."""
        if self._count % self._step == 0:
            pixels = -(-frame.shape[1] // _GIF_WIDTH)
            self._writer.append_data(np.ascontiguousarray(frame[::pixels, ::pixels]))
        self._count += 1

    def __enter__(self) -> "_Gif":
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


def _writer(out: Path, env: Any) -> Any:
    from imageio import v2 as imageio

    fps = env.metadata.get("render_fps", 30)
    if out.suffix == ".gif":
        return _Gif(out, fps)
    # Frames already have even sides; imageio's default, blocks of 16, would rescale them and warn.
    return imageio.get_writer(
        out, format="FFMPEG", mode="I", fps=fps, codec="libx264", quality=8, macro_block_size=1
    )


def _frame(env: Any) -> np.ndarray:
    """Draw one frame and make its sides even, as the codec needs them."""
    try:
        frame = env.render()
    except Exception as error:  # the type of an OpenGL error depends on its binding
        reason = " ".join(str(error).split()) or type(error).__name__
        raise VideoError(
            f"{env.unwrapped.__class__.__name__} cannot draw ({reason}); without a display set "
            f"MUJOCO_GL=egl or MUJOCO_GL=osmesa and install its library ({_PACKAGES})"
        ) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise VideoError(f"{env} drew no picture: render() returned {type(frame).__name__}")
    height, width = frame.shape[:2]
    frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(frame, dtype=np.uint8)


def _backend_works(backend: str, environ: Mapping[str, str]) -> bool:
    # As Gymnasium does: MuJoCo's context is made current and drawn into.
    code = (
        f"from mujoco.{backend} import GLContext; import mujoco as m; "
        "context = GLContext(64, 64); context.make_current(); "
        "m.MjrContext(m.MjModel.from_xml_string('<mujoco/>'), m.mjtFontScale.mjFONTSCALE_100); "
        "import os; os._exit(0)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],  # -P: nothing of the current directory
            env={**environ, "MUJOCO_GL": backend},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
