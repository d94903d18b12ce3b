"""`drumline verify`: does a run repeat on another layout, or do two runs agree?"""

import tempfile
from dataclasses import replace
from pathlib import Path

from drumline.commands.run import Run, refuse_other_machine, train
from drumline.recipes.layout import Layout
from drumline.recipes.methods import config_from
from drumline.runs.fingerprints import Difference, first_difference, read_chain
from drumline.runs.folder import RunError, RunFolder


def updates_within(run: Run, seconds: float) -> int:
    """Return how many updates the run made in its first `seconds`, at least one."""
    return max(1, sum(row["wall_seconds"] <= seconds for row in run.metrics))


def verify_again(
    folder: RunFolder, updates: int | None, layout: Layout
) -> tuple[int, Difference | None]:
    """Train the first updates once more on `layout`; returns how many, and what differs first."""
    document = folder.document
    if document["promise"].startswith("no promise"):
        raise RunError(document["promise"])
    refuse_other_machine(document)
    run = Run(folder)
    rows = run.metrics
    if not rows:
        raise RunError(f"{folder.path} has no updates to verify")
    count = min(len(rows), updates or updates_within(run, 60.0))
    config = config_from(document["method"], document["config"])
    again = replace(config, evaluate_every=0, evaluate_episodes=1)
    with tempfile.TemporaryDirectory(prefix="drumline-verify-") as place:
        second = train(again, out=Path(place) / "again", layout=layout, last_update=count)
        ours, theirs = (
            read_chain(folder.fingerprints_csv),
            read_chain(second.folder.fingerprints_csv),
        )
        return count, first_difference(ours, theirs)


def verify_two(left: RunFolder, right: RunFolder) -> Difference | None:
    """Compare the fingerprints of two runs over the updates that both have."""
    return first_difference(read_chain(left.fingerprints_csv), read_chain(right.fingerprints_csv))
