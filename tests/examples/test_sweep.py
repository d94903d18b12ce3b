"""The example that searches settings with Optuna."""

from pathlib import Path

import pytest

import drumline

optuna = pytest.importorskip("optuna", reason="optuna is in the extra `dev`")


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_trials_are_pruned_and_their_runs_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import sweep

    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    class Second(optuna.pruners.BasePruner):
        """Prunes the second trial at its first report."""

        def prune(self, study, trial):
            return trial.number == 1 and bool(trial.intermediate_values)

    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=Second())
    study.optimize(lambda trial: sweep.objective(trial, 30_000), n_trials=2)
    first, second = study.trials
    assert first.state == optuna.trial.TrialState.COMPLETE
    assert first.value == max(first.intermediate_values.values())
    assert second.state == optuna.trial.TrialState.PRUNED
    runs = [drumline.load(trial.user_attrs["run"]) for trial in study.trials]
    assert runs[0].metrics[-1]["env_steps"] >= 30_000 > runs[1].metrics[-1]["env_steps"]
    assert runs[1].metrics[-1]["update"] == 6
    assert runs[1].resume(workers="inline").metrics[-1]["env_steps"] >= 30_000
    assert runs[1].folder.document["tags"] == ["sweep", "trial-1"]
