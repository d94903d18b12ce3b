"""Environments that follow Python's string hashes, where the calling process steps them.

Worker processes and the command line have the hash seed 0. A call from Python has random hashes
unless it was started with PYTHONHASHSEED=0, and a rehearsal in the same process has the same ones.
"""

import sys
from contextlib import closing
from typing import Any

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.errors import ImpureEnvironment
from drumline.policies.spec import REFERENCE
from drumline.protocols import PublishedLayout
from drumline.recipes.chosen_environment import chosen_environment
from drumline.runtime.guard import Guard
from drumline.runtime.process_pool import ProcessPool
from drumline.training.layout import Layout
from drumline.training.rotation_run import RotationRecipe
from drumline.training.stream_run import StreamRecipe
from drumline.workers.random_episode import RandomEpisode, RandomEpisodeSpec, Trace

_SEED = 0
_STEPS = 200
_LIKE_ELSEWHERE: set[str] = set()
"""Environments that this process has compared, as written: a worker takes a second or two."""


def refuse_hash_order(config: Any, recipe: object, layout: Layout) -> None:
    """Raise `ImpureEnvironment` if random steps differ in a process with other string hashes.

    Asked of environments of the user's own code (`module:factory`) under the promise alone.
    """
    promised = bool(getattr(config, "promise", True)) and not getattr(config, "objective", "")
    if not (promised and sys.flags.hash_randomization and ":" in config.env):
        return
    if not _steps_here(recipe, layout):
        return
    environment = chosen_environment(config)
    if repr(environment) in _LIKE_ELSEWHERE:
        return
    try:
        difference = _here(environment, layout).first_difference(_elsewhere(environment, layout))
    except (Exception, SystemExit):  # noqa: BLE001 - the user's own code may raise anything
        return  # of random actions: training itself tells what it meets
    if difference:
        raise ImpureEnvironment(
            f"{environment.id}, run in a process with other string hashes, gave another "
            f"{difference}: it follows the order of a set or of hashes. Start Python with "
            "PYTHONHASHSEED=0, mend the environment, or train with promise=False"
        )
    _LIKE_ELSEWHERE.add(repr(environment))


def _steps_here(recipe: object, layout: Layout) -> bool:
    """Return whether training steps environments in this process.

    The reference batch of virtual batch normalisation is played here.
    """
    if layout.pool == "inline" or isinstance(recipe, StreamRecipe):
        return True
    if REFERENCE in getattr(getattr(recipe, "shared", None), "arrays", ()):
        return True
    return isinstance(recipe, RotationRecipe) and recipe.staff.inline


def _here(environment: EnvironmentSpec, layout: Layout) -> Trace:
    limits = layout.hang_seconds, layout.creation_seconds
    with Guard(*limits) as guard, closing(make_environment(environment)) as made:
        guard.enter(f"the check of {environment.id}")
        with seeding.kept_globals(), guard.building():
            seeding.seed_globals(_SEED)
            return RandomEpisode(made.environment, made.limit, _SEED).run(_STEPS)


def _elsewhere(environment: EnvironmentSpec, layout: Layout) -> Trace:
    pool = ProcessPool(
        RandomEpisodeSpec(environment, _STEPS),
        size=1,
        published=PublishedLayout({}),
        log=lambda text: None,
        hang_seconds=layout.hang_seconds,
        creation_seconds=layout.creation_seconds,
    )
    try:
        pool.submit([_SEED])
        return pool.completed()[0].result
    finally:
        pool.close()
