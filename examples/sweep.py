"""A search of settings with Optuna: trials that fall behind are pruned, and can be resumed.

pip install optuna
python sweep.py
"""

import optuna

import drumline


class Pruning:
    """Reports every evaluation to a trial, and ends the run where Optuna prunes it."""

    def __init__(self, trial: optuna.Trial):
        self.trial = trial
        self.best = float("-inf")

    def on_evaluation(self, evaluation):
        self.best = max(self.best, evaluation.mean)
        self.trial.report(evaluation.mean, step=evaluation.env_steps)
        return not self.trial.should_prune()


def objective(trial: optuna.Trial, total_steps: int = 20_000) -> float:
    pruning = Pruning(trial)
    run = drumline.train(
        "es",
        "CartPole-v1",
        total_steps=total_steps,
        learning_rate=trial.suggest_float("learning_rate", 1e-3, 1e-1, log=True),
        std=trial.suggest_float("std", 0.02, 0.5, log=True),
        evaluate_every=5,
        evaluate_episodes=5,
        workers="inline",
        tags=["sweep", f"trial-{trial.number}"],
        callbacks=pruning,
    )
    trial.set_user_attr("run", str(run.path))
    if trial.should_prune():
        raise optuna.TrialPruned
    return pruning.best


def main(trials: int = 20) -> optuna.Study:
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
    )
    study.optimize(objective, n_trials=trials)
    return study


if __name__ == "__main__":
    best = main().best_trial
    print(best.params, best.value, best.user_attrs["run"])
