import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from drumline.display import video
from drumline.display.video import (
    VideoError,
    choose_offscreen_backend,
    display_available,
    record_episodes,
    show_episodes,
)


class Painting(gymnasium.Env):
    """Returns 1 a step, for `length` steps; its frames have the odd sides 65 × 49."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = gymnasium.spaces.Box(0, 100, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 12):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, self.time >= self.length, False, {}

    def render(self):
        return np.full((49, 65, 3), 10 * self.time, np.uint8)


def decoded(path: Path, height: int, width: int) -> np.ndarray:
    """The frames `[F, H, W, 3]`, by ffmpeg itself: imageio's reader leaves its pipes open."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def test_a_film_has_a_frame_for_every_observation_at_the_environments_speed(tmp_path):
    film = record_episodes(Painting(12), lambda observation: 0, [0], tmp_path / "film.mp4")
    assert film == ((12.0,), (12,), False)
    frames = decoded(tmp_path / "film.mp4", 50, 66)
    assert len(frames) == 13
    assert frames[12].mean() - frames[0].mean() == pytest.approx(120, abs=15)
    _, seconds = imageio_ffmpeg.count_frames_and_secs(tmp_path / "film.mp4")
    assert seconds == pytest.approx(13 / 25, abs=0.02)


def test_a_grid_has_the_episodes_side_by_side_and_dims_what_has_ended(tmp_path):
    painting = Painting()
    lengths = iter([12, 6, 9])
    begun: list[int] = []

    def begin(number: int, seed: int) -> None:
        begun.append(seed)
        painting.length = next(lengths)

    film = tmp_path / "film.mp4"
    shown = record_episodes(painting, lambda _: 0, [7, 8, 9], film, begin=begin, grid=True)
    assert (shown.lengths, begun) == ((12, 6, 9), [7, 8, 9])
    frames = decoded(film, 50, 66)  # two columns of 33 and two rows of 25 pixels
    assert len(frames) == 13
    up, down, left, right = slice(2, 23), slice(27, 48), slice(2, 31), slice(35, 64)
    cells = [(up, left), (up, right), (down, left)]
    levels = np.array([[frame[cell].mean() for cell in cells] for frame in frames])
    assert levels[5] == pytest.approx([50, 50, 50], abs=8)
    assert levels[9] == pytest.approx([90, 30, 90], abs=8)  # the second ended at 60
    assert levels[12] == pytest.approx([120, 30, 45], abs=8)
    assert frames[12][down, right].mean() == pytest.approx(0, abs=8)


def test_a_gif_runs_at_the_environments_speed_and_again_and_again(tmp_path):
    quick = Painting(24)
    quick.metadata = {"render_modes": ["rgb_array"], "render_fps": 50}
    assert record_episodes(quick, lambda _: 0, [0], tmp_path / "film.gif").lengths == (24,)
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.n_frames == 13  # every second of 25: browsers slow down quicker gifs
        assert gif.info["duration"] == 40
        assert gif.info["loop"] == 0
        assert gif.size == (66, 50)
        first = np.asarray(gif.convert("RGB")).mean()
        gif.seek(12)
        assert np.asarray(gif.convert("RGB")).mean() - first == pytest.approx(240, abs=15)


def test_a_film_ends_after_max_steps(tmp_path):
    film = record_episodes(Painting(90), lambda _: 0, [0], tmp_path / "film.mp4", max_steps=4)
    assert film.lengths == (4,)


def test_several_episodes_make_one_film_and_each_begins_with_its_seed(tmp_path):
    begun = []
    film = record_episodes(
        Painting(3),
        lambda _: 0,
        [5, 6],
        tmp_path / "film.mp4",
        begin=lambda number, seed: begun.append((number, seed)),
    )
    assert begun == [(0, 5), (1, 6)]
    assert film.lengths == (3, 3)
    assert len(decoded(tmp_path / "film.mp4", 50, 66)) == 8


def test_a_window_is_drawn_by_the_environment_itself():
    env = Painting(4)
    env.render_mode = "human"
    assert show_episodes(env, lambda _: 0, [0, 1], max_steps=3)[:2] == ((3.0, 3.0), (3, 3))
    with pytest.raises(VideoError, match="human"):
        show_episodes(Painting(), lambda _: 0, [0])


def test_a_real_environment_without_opengl_is_filmed(tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    film = record_episodes(env, lambda _: 1, [3], tmp_path / "film.mp4")
    env.close()
    frames = decoded(tmp_path / "film.mp4", 400, 600)
    assert len(frames) == film.lengths[0] + 1 > 5
    assert np.ptp(frames[0]) > 100


def test_missing_opengl_is_one_sentence_that_says_what_to_do(tmp_path, monkeypatch):
    def render(self):
        raise ImportError("no libEGL\nanywhere")

    monkeypatch.setattr(Painting, "render", render)
    with pytest.raises(VideoError, match=r"no libEGL anywhere.*MUJOCO_GL=egl.*libosmesa6") as error:
        record_episodes(Painting(), lambda _: 0, [0], tmp_path / "film.mp4")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_wrong_use_is_named(tmp_path):
    with pytest.raises(VideoError, match="rgb_array"):
        record_episodes(gymnasium.make("CartPole-v1"), lambda _: 0, [0], tmp_path / "film.mp4")
    with pytest.raises(VideoError, match=r"film\.avi"):
        record_episodes(Painting(), lambda _: 0, [0], tmp_path / "film.avi")
    with pytest.raises(VideoError, match="does not exist"):
        record_episodes(Painting(), lambda _: 0, [0], tmp_path / "nowhere" / "film.mp4")


def test_a_display_is_what_the_environment_names():
    assert display_available({"DISPLAY": ":0"}, "linux")
    assert display_available({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert not display_available({"DISPLAY": ""}, "linux")
    assert display_available({}, "darwin")


def test_osmesa_is_chosen_where_egl_fails_and_a_users_choice_stands(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(video, "_backend_works", lambda backend, environ: backend == "osmesa")
    environ: dict[str, str] = {}
    assert choose_offscreen_backend(environ) == environ["MUJOCO_GL"] == "osmesa"
    for environ in ({"MUJOCO_GL": "glfw"}, {"DISPLAY": ":0"}):
        before = environ.get("MUJOCO_GL")
        assert choose_offscreen_backend(environ) is None
        assert environ.get("MUJOCO_GL") == before
    monkeypatch.setattr(video, "_backend_works", lambda backend, environ: False)
    environ = {}
    assert choose_offscreen_backend(environ) is None
    assert "MUJOCO_GL" not in environ


@pytest.mark.slow
def test_mujoco_is_filmed_without_a_display(tmp_path):
    environ = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    if choose_offscreen_backend(environ) is None and "MUJOCO_GL" not in environ:
        pytest.skip("neither EGL nor OSMesa is installed here")
    code = (
        "import sys, pathlib, gymnasium; from drumline.display.video import record_episodes\n"
        "env = gymnasium.make('HalfCheetah-v5', render_mode='rgb_array')\n"
        "record_episodes(env, lambda _: env.action_space.sample(), [0], pathlib.Path(sys.argv[1]),"
        " max_steps=5)\nenv.close()"
    )
    out = tmp_path / "film.mp4"
    subprocess.run([sys.executable, "-c", code, str(out)], env=environ, check=True)
    frames = decoded(out, 480, 480)
    assert len(frames) == 6
    assert np.ptp(frames[0]) > 100


def test_a_disk_that_fills_up_under_a_film_is_one_sentence(tmp_path, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return None

        def append_data(self, frame):
            raise OSError("FFMPEG COMMAND: and all that it said")

    monkeypatch.setattr(video, "_writer", lambda out, env: Full())
    with pytest.raises(VideoError, match=r"cannot write .*film\.mp4: .*disk full"):
        record_episodes(Painting(3), lambda observation: 0, [0], tmp_path / "film.mp4")
