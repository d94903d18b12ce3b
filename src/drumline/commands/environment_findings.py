"""Findings about an environment, and Drumline's methods by the spaces that they serve."""

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["ok", "note", "fault"]

SEARCHED = ("es", "ars")
LEARNED = ("aes", "one-plus-one", "acem-rl", "cem", "cem-rl", "p-cem-rl", "td3")
CONTINUOUS = ("erl",)
ROLLED_OUT = ("hts", "a2c", "ppo", "impala")
"""Drumline's methods by the spaces that they serve; only the last never seed global generators,
because they step several environments in turn."""
EVERY = (*SEARCHED, *LEARNED, *CONTINUOUS, *ROLLED_OUT)


@dataclass(frozen=True)
class Finding:
    """One check's verdict, and a sentence."""

    check: str
    verdict: Verdict
    sentence: str


@dataclass
class Checked:
    """Findings about an environment, in the order of the checks, with what was measured."""

    env_id: str
    engine: str
    findings: list[Finding] = field(default_factory=list)
    observations: str = ""
    actions: str = ""
    not_served: dict[str, str] = field(default_factory=dict)
    """Method → why it does not take these spaces."""
    no_promise: dict[str, str] = field(default_factory=dict)
    """Method → why its runs could not be repeated."""
    measured: dict[str, float | int | None] = field(default_factory=dict)
    pictures: bool = False
    """Whether observations look like images."""

    @property
    def passed(self) -> bool:
        """Return whether there is no fault."""
        return all(finding.verdict != "fault" for finding in self.findings)

    @property
    def ends(self) -> bool:
        """Return whether episodes end, as far as was seen."""
        return bool(self.measured.get("episodes_ended") or self.measured.get("time_limit"))

    @property
    def kept(self) -> list[str]:
        """Return Drumline's methods that serve the environment and keep their promise with it."""
        if not self.passed and not self.no_promise:
            return []
        without = {"impala", *self.not_served, *self.no_promise}
        return [name for name in EVERY if name not in without]
