"""Log a run to MLflow: settings, each update, evaluations, and the trained policy's file.

pip install mlflow
python log_to_mlflow.py
mlflow ui --backend-store-uri sqlite:///mlflow.db
"""

import dataclasses
import math

import mlflow

import drumline


class ToMLflow:
    """Logs numbers at the env steps that they belong to; those that are not finite are left out."""

    def on_update(self, metrics):
        steps = int(metrics["env_steps"])
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        mlflow.log_metrics(finite, step=steps)

    def on_evaluation(self, evaluation):
        mlflow.log_metric("evaluation_mean", evaluation.mean, step=evaluation.env_steps)


def main(store: str = "sqlite:///mlflow.db", total_steps: int = 20_000, out=None) -> drumline.Run:
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("drumline")
    config = drumline.configure("es", "CartPole-v1", total_steps=total_steps, evaluate_every=5)
    with mlflow.start_run(run_name=f"es-{config.env}-{config.seed}"):
        mlflow.log_params(dataclasses.asdict(config))
        run = drumline.train(config, workers="inline", out=out, callbacks=ToMLflow())
        mlflow.log_metric("final_return", run.evaluate(episodes=10).mean)
        mlflow.log_artifact(str(run.path / "policy-last.safetensors"))
        mlflow.log_artifact(str(run.path / "policy-last.json"))
    return run


if __name__ == "__main__":
    print(main().path)
