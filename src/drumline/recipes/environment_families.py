"""Families of environments for which the actor-critic methods have presets."""

from collections.abc import Mapping
from typing import Any

CONTROL_IDS = tuple(
    f"{name}-v{version}"
    for name in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid")
    for version in (4, 5)
)
ALPHAS = {
    f"{name}-v{version}": alpha
    for name, alpha in (("HalfCheetah", 16), ("Hopper", 64), ("Walker2d", 32))
    for version in (4, 5)
}
"""Environment → steps between two synchronisations, as tuning chose (docs/measured/tuning.md)."""


def with_alpha(preset: Mapping[str, Any], alpha: int) -> dict[str, Any]:
    """Return a preset for 128 steps, 32 minibatches a pass, as one for intervals of `alpha` steps.

    Minibatches keep their rows, and what is counted in intervals its env steps.
    """
    return {
        **preset,
        "alpha": alpha,
        "minibatches": 32 * alpha // 128,
        "renew_intervals": preset["renew_intervals"] * 128 // alpha,
        "evaluate_every": preset["evaluate_every"] * 128 // alpha,
    }


_PUBLISHED_GAMES = (
    "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk "
    "Bowling Boxing Breakout Centipede ChopperCommand CrazyClimber DemonAttack DoubleDunk "
    "Enduro FishingDerby Freeway Frostbite Gopher Gravitar IceHockey Kangaroo Krull "
    "MontezumaRevenge NameThisGame Phoenix Pitfall Pong PrivateEye Qbert Riverraid RoadRunner "
    "Robotank Seaquest Skiing Solaris SpaceInvaders StarGunner Tennis TimePilot Tutankham "
    "UpNDown Venture VideoPinball WizardOfWor YarsRevenge Zaxxon "
)
PUBLISHED_GAMES = tuple(_PUBLISHED_GAMES.split())
"""The 51 Atari games of Salimans et al. 2017, by the names of their ids."""
_OTHER_GAMES = ("Defender", "Hero", "Jamesbond", "KungFuMaster", "MsPacman", "Surround")
ATARI_GAMES = (*PUBLISHED_GAMES, *_OTHER_GAMES)
"""The field's 57 Atari games."""
ATARI_IDS = tuple(f"{prefix}{name}-v5" for prefix in ("", "ALE/") for name in ATARI_GAMES)
PONG_IDS = ("Pong-v5", "ALE/Pong-v5")
FOOTBALL_IDS = tuple(
    f"gfootball/{name}-v1"
    for name in (
        "academy_empty_goal_close",
        "academy_empty_goal",
        "academy_run_to_score",
        "academy_run_to_score_with_keeper",
        "academy_pass_and_shoot_with_keeper",
        "academy_run_pass_and_shoot_with_keeper",
        "academy_3_vs_1_with_keeper",
        "academy_corner",
        "academy_counterattack_easy",
        "academy_counterattack_hard",
        "academy_single_goal_versus_lazy",  # the paper's 11 against 11 lazy ones
    )
)
