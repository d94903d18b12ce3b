"""A run says what it is, and draws its curve in a notebook."""

from pathlib import Path

import pytest

import drumline
from drumline.recipes.es import ES

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def test_a_run_says_what_it_is_and_draws_its_curve(tmp_path: Path):
    config = ES(
        env="CartPole-v1",
        total_steps=200,
        population_size=4,
        hidden=(4,),
        noise_table_size=4096,
        evaluate_every=0,
        evaluate_episodes=2,
    )
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    words = repr(run)
    assert words.startswith(f"Run('{run.path}': es on CartPole-v1, seed 0, ")
    assert words.endswith(", finished)")
    assert f"{run.metrics[-1]['env_steps']:,.0f} env steps, return " in words
    picture = run._repr_png_()
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    assert "running" not in words
    (run.path / "metrics.csv").write_text("update,env_steps\n1,many\n")
    assert repr(run) == f"Run('{run.path}', damaged)"
    assert run._repr_png_() is None
    (run.path / "metrics.csv").unlink()
    assert repr(run).endswith(", not begun)")
