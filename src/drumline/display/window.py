"""Window: whether the user has closed an environment's window, by its button, q or Esc.

Gymnasium's pygame windows ignore all three. Its MuJoCo window draws on after it has been destroyed,
which ends the process. pygame and glfw are taken from the modules that the environment imported.
"""

import sys
from typing import Any


class Window:
    """Watches the window of a Gymnasium environment with `render_mode="human"`."""

    def __init__(self, environment: Any):
        self._environment = environment
        self._viewer: Any = None
        self._closed = False

    def closed(self) -> bool:
        """Return whether it was closed; call it after every reset and step."""
        self._closed = self._closed or _closed_by_pygame()
        viewer = getattr(
            getattr(self._environment.unwrapped, "mujoco_renderer", None), "viewer", None
        )
        if viewer is not self._viewer and getattr(viewer, "window", None) is not None:
            self._viewer = viewer
            self._watch(viewer)
        return self._closed

    def _watch(self, viewer: Any) -> None:
        glfw = sys.modules["glfw"]
        keys_of_viewer = glfw.set_key_callback(viewer.window, None)

        def key(window: Any, key: int, scancode: int, action: int, mods: int) -> None:
            if key in (glfw.KEY_ESCAPE, glfw.KEY_Q):
                close(window)
            elif keys_of_viewer is not None:
                keys_of_viewer(window, key, scancode, action, mods)

        def close(window: Any) -> None:
            # The viewer must not see the key: it would destroy the window and then draw into it.
            glfw.set_window_should_close(window, False)
            self._closed = True
            viewer._paused = False  # else `step` would not return

        glfw.set_key_callback(viewer.window, key)
        glfw.set_window_close_callback(viewer.window, close)


def _closed_by_pygame() -> bool:
    pygame = sys.modules.get("pygame")
    if pygame is None or not pygame.display.get_init() or pygame.display.get_surface() is None:
        return False
    events = pygame.event.get((pygame.QUIT, pygame.KEYDOWN))
    return any(e.type == pygame.QUIT or e.key in (pygame.K_q, pygame.K_ESCAPE) for e in events)
