"""Closing a window that an environment draws: pygame's, without a screen; MuJoCo's by a double."""

import sys
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from drumline.display.video import show_episodes
from drumline.display.window import Window


def shown_until(event: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, episodes: int = 2):
    """Show CartPole and let the event happen at the fourth step."""
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    environment = gymnasium.make("CartPole-v1", render_mode="human")
    steps = 0

    def act(observation: object) -> int:
        nonlocal steps
        steps += 1
        if steps == 4:
            pygame.event.post(pygame.event.Event(event.pop("type"), event))
        return steps % 2

    try:
        return show_episodes(environment, act, list(range(episodes)), max_steps=8), steps
    finally:
        environment.close()


@pytest.mark.parametrize("how", ["button", "q", "escape"])
def test_closing_pygames_window_ends_the_show(how: str, monkeypatch: pytest.MonkeyPatch):
    pygame = pytest.importorskip("pygame")
    keys = {"q": pygame.K_q, "escape": pygame.K_ESCAPE}
    button = {"type": pygame.QUIT}
    event = button if how == "button" else {"type": pygame.KEYDOWN, "key": keys[how]}
    shown, steps = shown_until(event, monkeypatch)
    assert shown == ((), (), True)
    assert steps == 4


def test_other_keys_do_not_end_the_show(monkeypatch: pytest.MonkeyPatch):
    pygame = pytest.importorskip("pygame")
    shown, steps = shown_until({"type": pygame.KEYDOWN, "key": pygame.K_a}, monkeypatch)
    assert shown == ((8.0, 8.0), (8, 8), False)
    assert steps == 16


class Glfw:
    """The part of glfw that a viewer's window is watched by, with keys to press."""

    KEY_ESCAPE, KEY_Q, KEY_H = 256, 81, 72

    def __init__(self, viewers_own: Any):
        self.key, self.should_close = viewers_own, False
        self.close: Any = None

    def set_key_callback(self, window: object, callback: Any) -> Any:
        before, self.key = self.key, callback
        return before

    def set_window_close_callback(self, window: object, callback: Any) -> None:
        self.close = callback

    def set_window_should_close(self, window: object, value: bool) -> None:
        self.should_close = value


def mujoco_window(monkeypatch: pytest.MonkeyPatch) -> tuple[Window, Glfw, Any, list[int]]:
    pressed: list[int] = []
    glfw = Glfw(lambda window, key, scancode, action, mods: pressed.append(key))
    monkeypatch.setitem(sys.modules, "glfw", glfw)
    viewer = SimpleNamespace(window=object(), _paused=True)
    renderer = SimpleNamespace(viewer=viewer)
    window = Window(SimpleNamespace(unwrapped=SimpleNamespace(mujoco_renderer=renderer)))
    assert not window.closed()
    return window, glfw, viewer, pressed


@pytest.mark.parametrize("how", ["button", "q", "escape"])
def test_mujocos_viewer_never_sees_that_its_window_was_closed(
    how: str, monkeypatch: pytest.MonkeyPatch
):
    window, glfw, viewer, pressed = mujoco_window(monkeypatch)
    glfw.should_close = True  # as glfw does before it calls
    if how == "button":
        glfw.close(viewer.window)
    else:
        glfw.key(viewer.window, {"q": glfw.KEY_Q, "escape": glfw.KEY_ESCAPE}[how], 0, 1, 0)
    assert window.closed()
    assert not glfw.should_close
    assert not viewer._paused
    assert pressed == []


def test_mujocos_viewer_keeps_its_other_keys(monkeypatch: pytest.MonkeyPatch):
    window, glfw, viewer, pressed = mujoco_window(monkeypatch)
    glfw.key(viewer.window, glfw.KEY_H, 0, 1, 0)
    assert not window.closed()
    assert pressed == [glfw.KEY_H]
