"""Log a run to trackio, whose dashboard reads a database on this machine.

pip install trackio
python log_to_trackio.py
trackio show --project drumline
"""

import dataclasses

import trackio

import drumline


class ToTrackio:
    """Logs each update and each evaluation at its env steps."""

    def on_update(self, metrics):
        trackio.log(metrics, step=int(metrics["env_steps"]))

    def on_evaluation(self, evaluation):
        trackio.log({"evaluation_mean": evaluation.mean}, step=evaluation.env_steps)


def main(total_steps: int = 20_000, out=None) -> drumline.Run:
    config = drumline.configure("es", "CartPole-v1", total_steps=total_steps, evaluate_every=5)
    trackio.init(project="drumline", config=dataclasses.asdict(config))
    try:
        run = drumline.train(config, workers="inline", out=out, callbacks=ToTrackio())
        trackio.log({"final_return": run.evaluate(episodes=10).mean})
    finally:
        trackio.finish()
    return run


if __name__ == "__main__":
    print(main().path)
