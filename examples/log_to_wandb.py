"""Log a run to Weights & Biases; without a network into a folder that `wandb sync` uploads.

pip install wandb
python log_to_wandb.py
"""

import dataclasses

import wandb

import drumline


class ToWandb:
    """Logs numbers against env steps; an evaluation may come after later updates."""

    def __init__(self, run):
        self.run = run
        run.define_metric("*", step_metric="env_steps")

    def on_update(self, metrics):
        self.run.log(metrics)

    def on_evaluation(self, evaluation):
        self.run.log({"env_steps": evaluation.env_steps, "evaluation_mean": evaluation.mean})


def main(total_steps: int = 20_000, mode: str = "offline", out=None) -> drumline.Run:
    config = drumline.configure("es", "CartPole-v1", total_steps=total_steps, evaluate_every=5)
    settings = dataclasses.asdict(config)
    with wandb.init(project="drumline", mode=mode, config=settings) as logged:
        run = drumline.train(config, workers="inline", out=out, callbacks=ToWandb(logged))
        logged.summary["final_return"] = run.evaluate(episodes=10).mean
        logged.save(str(run.path / "policy-last.*"), base_path=str(run.path), policy="now")
    return run


if __name__ == "__main__":
    print(main().path)
