"""Names that other libraries have for settings of Drumline."""

from collections.abc import Collection

OTHER_NAMES = {
    "lr": "learning-rate",
    "anneal-lr": "anneal",
    "gamma": "discount",
    "lam": "gae-lambda",
    "lambda": "gae-lambda",
    "timesteps": "total-steps",
    "total-timesteps": "total-steps",
    "total-env-steps": "total-steps",
    "steps": "total-steps",
    "max-steps": "total-steps",
    "n-envs": "num-envs",
    "envs": "num-envs",
    "n-steps": "alpha",
    "num-steps": "alpha",
    "rollout-length": "alpha",
    "unroll-length": "alpha",
    "n-epochs": "epochs",
    "update-epochs": "epochs",
    "num-minibatches": "minibatches",
    "ent-coef": "entropy-coefficient",
    "entropy-coef": "entropy-coefficient",
    "vf-coef": "value-coefficient",
    "value-coef": "value-coefficient",
    "clip-range": "clip",
    "clip-coef": "clip",
    "max-grad-norm": "max-gradient-norm",
    "tau": "polyak",
    "buffer-size": "replay-size",
    "learning-starts": "random-steps",
    "policy-noise": "target-noise",
    "noise-clip": "target-noise-clip",
    "sigma": "std",
    "noise-stdev": "std",
    "popsize": "population-size",
    "pop-size": "population-size",
    "population": "population-size",
    "net-arch": "hidden",
    "load": "start-from",
    "load-model": "start-from",
    "load-path": "start-from",
    "pretrained": "start-from",
    "init-from": "start-from",
    "trained-agent": "start-from",
    "hidden-sizes": "hidden",
    "hidden-size": "hidden",
    "layers": "hidden",
    "num-workers": "workers",
    "n-workers": "workers",
    "jobs": "workers",
    "n-jobs": "workers",
    "processes": "workers",
    "output": "out",
    "output-dir": "out",
    "log-dir": "out",
    "logdir": "out",
    "save-dir": "out",
    "run-dir": "out",
    "eval-freq": "evaluate-every",
    "eval-every": "evaluate-every",
    "eval-episodes": "evaluate-episodes",
    "n-eval-episodes": "evaluate-episodes",
    "time-limit": "max-episode-steps",
    "max-episode-length": "max-episode-steps",
    "frameskip": "frame-skip",
    "action-repeat": "frame-skip",
}
"""Flag of another library → Drumline's, where a method has it."""

_OF_SOME = {"batch-size": "minibatches"}
"""The same for a name that other methods here have."""
_REMARKS = {
    "vf-coef": "twice Stable-Baselines3's: ours is of half the squared error",
    "value-coef": "twice Stable-Baselines3's: ours is of half the squared error",
    "eval-freq": "counted in updates",
    "eval-every": "counted in updates",
    "batch-size": "num_envs x alpha / batch_size",
}
"""What is other about a setting besides its name."""


def our_name(flag: str, known: Collection[str]) -> tuple[str, str] | None:
    """Return Drumline's name of another library's flag, if `known` has it, and a remark.

    >>> our_name("vf-coef", ["value-coefficient"])[0], our_name("vf-coef", ["std"])
    ('value-coefficient', None)
    """
    ours = OTHER_NAMES.get(flag) or _OF_SOME.get(flag)
    if ours is None or flag in known or ours not in known:
        return None
    remark = _REMARKS.get(flag, "")
    return ours, f" ({remark})" if remark else ""
