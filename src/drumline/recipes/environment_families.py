"""Families of environments for which the actor-critic methods have presets."""

CONTROL_IDS = tuple(
    f"{name}-v{version}"
    for name in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid")
    for version in (4, 5)
)
ATARI_IDS = tuple(
    f"{prefix}{name}-v5"
    for prefix in ("", "ALE/")
    for name in ("Pong", "Breakout", "Qbert", "Krull", "Jamesbond", "SpaceInvaders")
)
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
