"""What stands still between two generations: the state that a checkpoint holds."""

from collections.abc import Sequence

from drumline.types import EpisodeRow, Lived, Metrics, Snapshot, State


class Barrier:
    """The state after the latest whole generation, and its episodes until somebody takes them."""

    def __init__(self) -> None:
        self.stands = State()
        self._rows: list[EpisodeRow] = []
        self._fresh = False

    def reach(self, state: State, rows: Sequence[EpisodeRow]) -> None:
        """A generation has ended; its state holds `jobs`, the number of versions so far."""
        self.stands, self._rows, self._fresh = state, list(rows), True

    def finished(self) -> list[EpisodeRow]:
        """Return the generation's episodes, once."""
        rows, self._rows = self._rows, []
        return rows

    def settled(self, snapshot: Snapshot) -> Snapshot | None:
        """Return, once, what was in flight when it ended: what was asked since is asked again."""
        if not self._fresh:
            return None
        self._fresh = False
        before = int(self.stands.counters["jobs"])
        started = tuple(entry for entry in snapshot.started if entry.job.version <= before)
        versions = {entry.job.version: snapshot.versions[entry.job.version] for entry in started}
        return Snapshot(snapshot.events, snapshot.now, started, versions)


def merged(parts: Sequence[State], counters: dict[str, int]) -> State:
    """Return the state of several parts, whose names differ, and of counters."""
    tensors = {name: array for part in parts for name, array in part.tensors.items()}
    both = {name: value for part in parts for name, value in part.counters.items()}
    return State(tensors, {**both, **counters})


def lived_summary(lived: Sequence[Lived], fitness: Sequence[float]) -> Metrics:
    """Return what the members of a generation returned, and how long episodes were."""
    mean = sum(fitness) / len(fitness)
    return {
        "fitness_mean": mean,
        "fitness_std": (sum((one - mean) ** 2 for one in fitness) / len(fitness)) ** 0.5,
        "fitness_min": min(fitness),
        "fitness_max": max(fitness),
        "episode_length_mean": sum(one.length for one in lived) / len(lived),
    }
