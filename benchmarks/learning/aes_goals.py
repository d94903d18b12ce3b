"""Learning goals of AES-RL, and AES, TD3 and CEM-RL beside it at equal env steps.

The two pendulums have a score to reach; Hopper and Swimmer are compared at 30,000 env steps with
2,000 of warm-up, or at 100,000 (`100k`), by `drumline compare` over the run folders.

    python benchmarks/learning/aes_goals.py --runs RUNS --out benchmarks/results/aes_goals.csv
"""

from goals import Goal, main

TOLD = {
    "aes": ("--preset=paper", "--warmup-steps=2000"),
    "td3": ("--random-steps=2000",),
    "cem-rl": ("--warmup-steps=2000", "--warmup=random", "--batch-size=256"),
}
"""Flags besides each preset, for the same random env steps at the start and the same batches."""


def compared(method: str, env: str, steps: int) -> Goal:
    return Goal(method, env, None, steps, (f"--total-steps={steps}", *TOLD[method]))


GOALS = {
    "aes InvertedPendulum-v5": Goal("aes", "InvertedPendulum-v5", 1000.0, 50_000),
    "aes Pendulum-v1": Goal("aes", "Pendulum-v1", -200.0, 50_000),
    **{
        f"{method} {env} {steps // 1000}k": compared(method, env, steps)
        for steps in (30_000, 100_000)
        for env in ("Hopper-v5", "Swimmer-v5")
        for method in TOLD
    },
}

if __name__ == "__main__":
    main(GOALS, __doc__)
