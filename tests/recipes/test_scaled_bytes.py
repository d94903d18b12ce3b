"""Observations of bytes reach actors and critics divided by 255, as those of `hts` do."""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from recipes.small_configs import small_configs

from drumline.api.run import Run, train
from drumline.policies.build import build_policy
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec, spec_from
from drumline.policies.stacked_mlp import equals_single
from drumline.recipes.erl import ERL
from drumline.recipes.learned_actor import learned_actor
from drumline.training.layout import Layout, SteadyLayout

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ENV = "byte_environment:Bytes"
ALL: dict[str, Any] = {"env": ENV, "hidden": (8,), "evaluate_episodes": 1, "evaluate_every": 0}
REPLAY: dict[str, Any] = {"replay_size": 200, "learning_rate": 1e-2}
BRED = ERL(total_steps=120, population_size=3, critic_hidden=(8,), batch_size=8, **ALL, **REPLAY)
CONFIGS = {**small_configs(ALL, **REPLAY), "erl": BRED}
SEEN = ("Bytes", "Fractions")
OWN = [name for name in CONFIGS if name != "erl"]


def trained(name: str, env: str, out: Path, **fields: object) -> Run:
    layout = SteadyLayout if name in ("aes", "p-cem-rl") else Layout
    config = replace(CONFIGS[name], env=f"byte_environment:{env}", **fields)
    return train(config, layout=layout(pool="inline", tensorboard=False), out=out)


def learned(run: Run) -> list[dict[str, str]]:
    """Fingerprints of all but the replay, which holds the observations as they are."""
    with (run.path / "fingerprints.csv").open(newline="") as rows:
        read = list(csv.DictReader(rows))
    return [{k: v for k, v in row.items() if k not in ("replay", "chained")} for row in read]


@pytest.mark.parametrize("name", CONFIGS)
def test_bytes_are_learned_from_as_their_fractions_of_255_are(name: str, tmp_path: Path):
    runs = [trained(name, env, tmp_path / env) for env in ("Bytes", "Fractions", "Unscaled")]
    scaled, fractions, unscaled = (learned(run) for run in runs)
    assert scaled == fractions
    assert scaled != unscaled


@pytest.mark.parametrize("name", CONFIGS)
def test_unscaled_bytes_are_learned_from_as_the_same_numbers_are(name: str, tmp_path: Path):
    raw = trained(name, "Bytes", tmp_path / "raw", scale_bytes=False)
    assert learned(raw) == learned(trained(name, "Unscaled", tmp_path / "numbers"))


@pytest.mark.parametrize("name", OWN)
def test_an_own_network_gets_fractions_as_its_critics_do(name: str, tmp_path: Path):
    own = {"network": "actor_critic_networks:Plain"}
    scaled, fractions = (trained(name, env, tmp_path / env, **own) for env in SEEN)
    assert learned(scaled) == learned(fractions)


def test_a_file_from_before_modules_alone_were_scaled_is_read():
    head = {"kind": "squashed", "low": [-1.0], "high": [1.0], "shape": [1], "dtype": "<f4"}
    document = {"observation_size": 6, "head": head, "module": "some:Module", "module_bytes": True}
    assert spec_from(document) == PolicySpec(
        6, Head("squashed", (-1.0,), (1.0,), (1,), "<f4"), module="some:Module", scale_bytes=True
    )


@pytest.mark.parametrize("network", ["mlp", "actor_critic_networks:Plain"])
def test_an_exported_policy_takes_bytes(network: str, tmp_path: Path):
    actor = learned_actor(replace(CONFIGS["td3"], network=network))
    policy = build_policy(actor.policy)
    policy.load_vector(actor.first_parameters(3))
    module = torch_policy(actor.policy, policy.vector, None, None)
    for row in np.random.default_rng(0).integers(0, 256, (20, 2, 3), np.uint8):
        action = module(torch.from_numpy(row[None]))[0].numpy()
        assert action == pytest.approx(policy.act(row), abs=1e-6)


def test_stacked_members_have_the_bits_of_one():
    spec = PolicySpec(6, Head("discrete", choices=3), (8,), normalize=False, scale_bytes=True)
    assert equals_single(spec, 3, np.uint8)


def test_a_learner_from_outside_gets_an_mlp_that_takes_bytes_as_they_are():
    config = SimpleNamespace(env=ENV, engine="auto", frame_skip=1, hidden=(8,))
    assert not learned_actor(config).policy.scale_bytes
