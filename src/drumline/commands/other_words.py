"""Words of other libraries, and numbers as people write them, for flags of Drumline."""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal

from drumline.commands.command_line import WrongUse

OTHER_NAMES = {
    "lr": "learning-rate",
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

_ROUND = re.compile(r"[+-]?\d+(\.\d*)?[eE]\+?\d{1,2}")


def in_our_words(
    words: Sequence[str], flags: Collection[str], whole_numbers: Collection[str]
) -> list[str]:
    """Return the words with 1e5 as 100000 behind flags of whole numbers.

    Raises WrongUse for another library's name of one of the `flags`; names are without dashes.
    """
    found: list[str] = []
    flag = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            flag = name.replace("_", "-")
            if flag == "device" and flag not in flags:
                raise WrongUse(
                    "there is no --device here: only trainings with a learner compute on a GPU "
                    "(drumline train hts CartPole-v1 --help-all): leave it out"
                )
            if flag not in flags and (ours := OTHER_NAMES.get(flag)) in flags:
                raise WrongUse(f"there is no --{flag} here: it is called --{ours}")
            if equals and flag in whole_numbers:
                word = f"--{name}={_whole(value)}"
        elif flag in whole_numbers:
            word = _whole(word)
        found.append(word)
    return found


def _whole(word: str) -> str:
    """Return a whole number without its exponent; any other word as it is.

    >>> _whole("1e5"), _whole("2.5e6"), _whole("1.5e0"), _whole("fast")
    ('100000', '2500000', '1.5e0', 'fast')
    """
    if not _ROUND.fullmatch(word):
        return word
    number = Decimal(word)
    return str(int(number)) if number == int(number) else word
