"""Learning goals of OpenAI-ES and ARS: env-step budgets to reach TRPO's final score.

Budgets: Salimans et al. 2017, Table 3, Gym v1 environments; ours are the -v5 ones. ARS gets the
same scores and OpenAI-ES's budgets, which its paper reports to stay below in these environments
(Mania et al. 2018, Table 4: V1 on Swimmer, V2-t elsewhere).

    python benchmarks/learning/es_goals.py --runs RUNS --out benchmarks/results/es_goals.csv
    python benchmarks/learning/es_goals.py --runs RUNS --out ars_goals.csv --goals \
        "ars Swimmer-v5" "ars HalfCheetah-v5"
"""

from goals import Goal, main

_PUBLISHED = {
    "InvertedPendulum-v5": (1000.0, 455_000),
    "Swimmer-v5": (128.25, 1_390_000),
    "HalfCheetah-v5": (2385.79, 2_880_000),
    "InvertedDoublePendulum-v5": (9104.07, 5_390_000),
}
_CASES = [
    ("es", "InvertedPendulum-v5", 2, 455_000),
    ("es", "Swimmer-v5", 5, 1_390_000),
    ("es", "HalfCheetah-v5", 10, 2_880_000),
    ("es", "InvertedDoublePendulum-v5", 20, 5_390_000),
    ("ars", "Swimmer-v5", 25, 1_390_000),
    ("ars", "HalfCheetah-v5", 2, 2_880_000),
]
"""Method, environment, updates between evaluations, total steps."""
_UNTUNED = {
    "es InvertedDoublePendulum-v5": ("--std=0.05", "--learning-rate=0.02", "--tie-tolerance=0")
}
"""Flags besides a preset that has been tuned since."""

GOALS = {
    f"{method} {env}": Goal(
        method,
        env,
        *_PUBLISHED[env],
        flags=(
            f"--evaluate-every={every}",
            f"--total-steps={steps}",
            *_UNTUNED.get(f"{method} {env}", ()),
        ),
    )
    for method, env, every, steps in _CASES
}

if __name__ == "__main__":
    main(GOALS, __doc__)
