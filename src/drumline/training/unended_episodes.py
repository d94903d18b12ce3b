"""A word about episodes that do not end: a run that waits for one would be silent for ever."""

import time
from collections.abc import Callable

_SECONDS = 20.0


class UnendedEpisodes:
    """Says that no episode has ended, after 20 seconds and then after twice as many each time."""

    def __init__(
        self,
        env_id: str,
        say: Callable[[str], None],
        *,
        limited: bool,
        clock: Callable[[], float] = time.perf_counter,
    ):
        """Say nothing where the environment is `limited` by a time limit: its episodes end."""
        self._env_id = env_id
        self._say = say
        self._silent = limited
        self._clock = clock
        self._since = clock()
        self._after = _SECONDS

    def ended(self) -> None:
        """Note that an episode has ended."""
        self._since, self._after = self._clock(), _SECONDS

    def due(self) -> bool:
        """Return whether no episode has ended for so long that it is time to say so."""
        return not self._silent and self._clock() - self._since >= self._after

    def going(self, env_steps: int) -> None:
        """Say, if it is due, that `env_steps` were made since the last end of an episode."""
        if env_steps and self.due():
            seconds = self._clock() - self._since
            self._after = 2.0 * seconds
            self._say(
                f"no episode has ended in {env_steps:,} env steps ({seconds:.0f} s): if "
                f"{self._env_id} has no time limit, --max-episode-steps N gives it one"
            )
