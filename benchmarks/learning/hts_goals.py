"""Learning goals of HTS-RL: env steps and wall-clock time until a score is reached and held.

Football's goal is an average score, not a reward, and the paper's three methods run for it.

    python benchmarks/learning/hts_goals.py --runs RUNS --out benchmarks/results/hts_goals.csv
"""

from goals import Goal, main

FOOTBALL = "gfootball/academy_empty_goal_close-v1"


def goal(env: str, score: float, budget: int, every: int, *more: str, episodes: int = 20) -> Goal:
    flags = (f"--evaluate-every={every}", f"--evaluate-episodes={episodes}", *more)
    return Goal("hts", env, score, budget, flags)


def football(method: str, every: int, *more: str) -> Goal:
    """The score is the mean of the latest 100 training episodes: drawn actions, as in the release.

    The most likely action scores long before: running to the right always does.
    """
    flags = (f"--evaluate-every={every}", "--evaluate-episodes=20", "--total-steps=204800", *more)
    return Goal(method, FOOTBALL, 0.8, 204_800, flags, training="score_mean")


def pong(*more: str) -> Goal:
    flags = ("--total-steps=3000000", *more)
    return goal("Pong-v5", 18.0, 3_000_000, 100, *flags, episodes=5)


BF16 = "--precision=bf16"
PAPER = "--preset=paper"
A2C = ("--learner=a2c", "--alpha=5", "--total-steps=500000")
GOALS = {
    "CartPole-v1 ppo": goal("CartPole-v1", 475.0, 100_000, 25),
    "CartPole-v1 a2c": goal("CartPole-v1", 475.0, 500_000, 500, *A2C),
    "HalfCheetah-v5 ppo": goal("HalfCheetah-v5", 1800.0, 1_000_000, 50, PAPER),
    "Hopper-v5 ppo": goal("Hopper-v5", 2000.0, 1_000_000, 50, PAPER),
    "Pong-v5 ppo": pong(),
    "Pong-v5 ppo bf16": pong(BF16),
    "football empty goal close hts": football("hts", 10),
    "football empty goal close ppo": football("ppo", 10),
    "football empty goal close impala": football("impala", 128),
    "football empty goal close hts bf16": football("hts", 10, BF16),
    "football empty goal close ppo bf16": football("ppo", 10, BF16),
    "football empty goal close impala bf16": football("impala", 128, BF16),
    "football empty goal close hts scoring": football("hts", 10, "--reward=scoring"),
    "football empty goal close hts scoring bf16": football("hts", 10, "--reward=scoring", BF16),
}
"""bf16 is for processors with its instructions; elsewhere it is slower by far."""

if __name__ == "__main__":
    main(GOALS, __doc__)
