"""Lanes of a config: built inside an executor, with the engine that the environment names."""

from collections.abc import Callable
from dataclasses import dataclass

from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.football import no_checkpoints
from drumline.envs.lanes import Lanes
from drumline.envs.timing import StepTimeLaw, StepTimes


@dataclass(frozen=True)
class LanesSpec:
    """Picklable description of lanes; a call makes the same lanes in any process."""

    environment: EnvironmentSpec
    root_seed: int
    first: int
    count: int
    step_time: StepTimeLaw | None = None
    """Law of artificial slowness. The lanes do not sleep; `step_times` gives the due times."""
    checkpoints: bool = False
    """Football: reward the way to the goal too; `Lanes.scores` keeps the goals."""
    threads: int = 1
    """EnvPool's own threads, whose number changes no bit."""

    def __call__(self, made: Callable[[], None] = lambda: None) -> Lanes:
        """Make the lanes; no environment is stepped before `begin` or `restore`.

        `made` is called after each environment, where the engine makes them one by one.
        """
        if self.count < 1:
            raise ValueError(f"lanes need at least one environment, got {self.count}")
        if self.environment.engine == "envpool":
            from drumline.envs.envpool_lanes import EnvPoolLanes

            return EnvPoolLanes(
                self.environment,
                self.root_seed,
                self.first,
                self.count,
                self.checkpoints,
                threads=self.threads,
            )
        from drumline.envs.gymnasium_lanes import GymnasiumLanes

        lanes = GymnasiumLanes(self.environment, self.root_seed, self.first, self.count, made)
        if self.checkpoints:  # an id that Gymnasium lacks is refused as such, before the flag
            lanes.close()
            raise EnvironmentProblem(no_checkpoints(self.environment.id))
        return lanes

    def step_times(self) -> StepTimes | None:
        """Return the step times of these lanes, or None without a law of slowness."""
        if self.step_time is None:
            return None
        return StepTimes(self.step_time, self.root_seed, self.first, self.count)
