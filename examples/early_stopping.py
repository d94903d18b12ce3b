"""End a run at a score: a callback that counts evaluations, and a run that goes on later.

python early_stopping.py
"""

import drumline


class AtScore:
    """Ends the run after `patience` evaluations in a row whose mean is `score` or more."""

    def __init__(self, score: float, patience: int = 1):
        self.score = score
        self.patience = patience
        self._reached = 0

    def on_evaluation(self, evaluation):
        self._reached = self._reached + 1 if evaluation.mean >= self.score else 0
        return self._reached < self.patience


def main(total_steps: int = 200_000, score: float = 475.0) -> drumline.Run:
    config = drumline.HTS(
        env="CartPole-v1",
        total_steps=total_steps,
        num_envs=8,
        alpha=32,
        minibatches=4,
        evaluate_every=10,
        evaluate_episodes=10,
    )
    return drumline.train(config, workers="inline", callbacks=AtScore(score))


if __name__ == "__main__":
    run = main()
    print(run.path, "ended after", int(run.metrics[-1]["env_steps"]), "env steps")
