"""Probability that the next individual is refined by gradient steps (RL) before its episode."""


def controlled_probability(
    rl_count: int, es_count: int, *, desired_share: float, slope: float = 50.0
) -> float:
    """clip(−K (n_RL / (n_RL + n_ES) − p_desired) + ½, 0, 1), of AES-RL's released code.

    A desired share of 0 or 1 gives exactly 0 or 1, which the formula alone does not.
    """
    refuse_improbable("desired_share", desired_share)
    if not slope > 0.0:
        raise ValueError(f"slope must be above 0, got {slope}")
    if desired_share in (0.0, 1.0):
        return desired_share
    share = rl_count / (rl_count + es_count)
    return min(max(-slope * (share - desired_share) + 0.5, 0.0), 1.0)


def fixed_probability(rl_count: int, es_count: int, *, desired_share: float) -> float:
    """p_desired, whatever the counts: the ablation without control."""
    refuse_improbable("desired_share", desired_share)
    return desired_share


def refuse_improbable(name: str, probability: float) -> None:
    """Raise unless 0 ≤ probability ≤ 1."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{name} must be 0 to 1, got {probability}")
