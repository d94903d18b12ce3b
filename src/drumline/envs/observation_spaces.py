"""Observation spaces that methods take, the flag for others, and spaces without a number."""

from typing import Any

from drumline.envs.environment import FLATTEN, EnvironmentProblem


def check_observations(space: Any, env_id: str) -> None:
    """Raise EnvironmentProblem for observations that are not one array, with the way to make it."""
    from gymnasium.spaces import Box

    if isinstance(space, Box):
        check_array(space, env_id, "observations")
        return
    fix = (
        f"give {FLATTEN}, which makes one vector of them (gymnasium.wrappers.FlattenObservation; "
        "EnvPool's cannot be flattened: take the task from a Gymnasium package)"
        if space.is_np_flattenable
        else "convert them in a wrapper and name your factory as module:factory"
    )
    raise EnvironmentProblem(
        f"{env_id} has {type(space).__name__} observations, and methods here take Box: {fix}"
    )


def check_array(space: Any, env_id: str, kind: str) -> None:
    """Raise EnvironmentProblem for arrays with an axis of length 0, and for long doubles."""
    if 0 in space.shape:
        raise EnvironmentProblem(
            f"{env_id} has {kind} of shape {list(space.shape)}, which hold no number: give their "
            "space one or more, as in Box(-1, 1, (1,))"
        )
    # Their bytes hold padding that differs from run to run, and no file of a run has such numbers.
    if space.dtype.kind == "f" and space.dtype.itemsize > 8:
        raise EnvironmentProblem(
            f"{env_id} has {kind} of {space.dtype} (np.longdouble), and methods here take floats "
            "of 64 bits or fewer: give their space np.float64"
        )
