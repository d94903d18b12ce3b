"""`es` and `ars` on images: the reference batch belongs to the run, and layouts change no byte."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from campaigns import FAULTS
from doubles import KillAt
from whole_runs import lasting_bytes, run_on

import drumline
from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.api.stored_policy import MOMENTS, load_policy
from drumline.commands.rebuild import rebuild
from drumline.commands.verify import verify_again
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.reference_frames import fill_with_random_play
from drumline.policies.convolutional import ConvolutionalPolicy
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError
from drumline.runs.policy_files import encoded_policy, read_policy, read_policy_file
from drumline.training.layout import SearchLayout

GAME = "pixel_environment:make"
SMALL = ES(
    env=GAME,
    policy="a3c-cnn",
    total_steps=500,
    population_size=4,
    std=0.05,
    noise_table_size=1 << 18,
    evaluate_every=2,
    evaluate_episodes=2,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(SMALL, workers="inline", out=tmp_path_factory.mktemp("pixels") / "run")


@FAULTS
def test_workers_one_of_them_killed_change_no_byte(tmp_path: Path, whole: Any):
    probe = KillAt("episode-begun", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SMALL, SearchLayout(workers=2), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == lasting_bytes(whole.folder)


def test_a_resumed_run_takes_the_batch_of_its_checkpoint_and_has_the_same_bytes(
    tmp_path: Path, whole: Any
):
    layout = SearchLayout(pool="inline")
    first = train(replace(SMALL, total_steps=200), layout=layout, out=tmp_path / "run")
    saved = read_checkpoint(first.folder).state.tensors["reference_frames"]
    again = resume(first.folder, layout, total_steps=SMALL.total_steps, trust=TRUSTED)
    assert lasting_bytes(again.folder) == lasting_bytes(whole.folder)
    assert (
        saved.tobytes() == read_policy(again.folder, "last").tensors["reference_frames"].tobytes()
    )


def test_verify_and_evaluate_have_the_batch_too(whole: Any):
    assert verify_again(whole.folder, 2, SearchLayout(workers=1), TRUSTED) == (2, None)
    run = drumline.load(whole.path, trust_code=True)
    assert run.evaluate(episodes=2).returns == run.evaluate(episodes=2).returns
    assert run.policy.act(np.zeros((3, 2, 36, 36), np.uint8)).shape == (3,)


def test_a_loaded_policy_takes_images_of_bytes_in_their_shape_alone(whole: Any):
    policy = drumline.load(whole.path, trust_code=True).policy
    images = np.random.default_rng(0).integers(0, 256, (5, 2, 36, 36))
    actions = policy.act(images.astype(np.uint8))
    assert (policy.act(images) == actions).all()  # whole numbers of another type
    assert (policy.act(images.reshape(5, -1).astype(np.uint8)) == actions).all()
    assert policy.act(images[1].tolist()) == policy.act(images[1].ravel()) == actions[1]
    for other in (np.moveaxis(images[0], 0, -1), images[0].reshape(36, 2, 36), images[:, 0]):
        with pytest.raises(ValueError, match=r"act takes an observation of shape \[2, 36, 36\]"):
            policy.act(other.astype(np.uint8))
    for other in (images[0] / 255.0, images[0] - 1, images[0] + 1):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            policy.act(other)


@pytest.mark.parametrize("spoil", ["moments", "module"])
def test_a_policy_file_with_what_images_cannot_have_is_damaged(
    spoil: str, tmp_path: Path, whole: Any
):
    stored = read_policy(whole.folder, "last")
    tensors, document = dict(stored.tensors), msgspec.to_builtins(stored.document)
    if spoil == "moments":
        tensors |= {name: np.zeros(2592, np.float32) for name in MOMENTS}
    else:
        document["policy"]["module"] = "torch_policies:Linear"
    path = tmp_path / "policy.safetensors"
    path.write_bytes(encoded_policy(tensors, document)[0])
    with pytest.raises(RunError, match=r"is damaged .*neither observation moments nor a module"):
        load_policy(read_policy_file(path), TRUSTED)


def test_a_rebuilt_generation_is_a_policy_with_its_batch(tmp_path: Path):
    layout = SearchLayout(pool="inline", keep_scalars=True)
    run = train(SMALL, layout=layout, out=tmp_path / "run")
    path = tmp_path / "policy.safetensors"
    path.write_bytes(rebuild(run.folder, 1, TRUSTED).policy_file)
    stored = read_policy_file(path)
    made = load_policy(stored, TRUSTED)
    assert isinstance(made, ConvolutionalPolicy)
    image = np.full((2, 36, 36), 90, np.uint8)
    rebuilt = made.output(image).tobytes()
    made.load_reference(np.zeros_like(stored.tensors["reference_frames"]))
    made.load_vector(stored.tensors["parameters"])
    assert made.output(image).tobytes() != rebuilt


def test_the_batch_is_random_play_that_follows_from_the_seed():
    spec = EnvironmentSpec(GAME)
    one, same, other = (np.zeros((20, 2, 36, 36), np.uint8) for _ in range(3))
    fill_with_random_play(one, spec, 3)
    fill_with_random_play(same, spec, 3)
    fill_with_random_play(other, spec, 4)
    assert one.tobytes() == same.tobytes() != other.tobytes()
    assert len({frame.tobytes() for frame in one}) > 15


def test_the_batch_follows_from_the_seed_also_where_observations_are_drawn_globally():
    """Workers seed the global generators before every episode; so does the batch's play."""
    spec = EnvironmentSpec("impure_environment:GlobalNoise")
    batches: list[bytes] = []
    for state in (1, 2):
        np.random.seed(state)
        expected = np.random.standard_normal(3).tobytes()
        np.random.seed(state)
        batch = np.zeros((20, 2), np.float32)
        fill_with_random_play(batch, spec, 3)
        batches.append(batch.tobytes())
        assert np.random.standard_normal(3).tobytes() == expected, "the caller's generator"
    assert batches[0] == batches[1]


def test_without_normalisation_there_is_no_batch(tmp_path: Path):
    config = replace(SMALL, normalization="none", total_steps=100)
    run = train(config, workers="inline", out=tmp_path / "run")
    assert "reference_frames" not in read_policy(run.folder, "last").tensors
    assert "reference_frames" not in read_checkpoint(run.folder).state.tensors


def test_ars_searches_on_images(tmp_path: Path):
    config = ARS(env=GAME, policy="a3c-cnn", total_steps=200, population_size=4)
    config = replace(config, noise_table_size=1 << 18, evaluate_every=0, evaluate_episodes=1)
    one = train(config, workers="inline", out=tmp_path / "one")
    two = train(config, workers=2, out=tmp_path / "two")
    assert lasting_bytes(one.folder) == lasting_bytes(two.folder)


def test_what_is_no_image_of_bytes_and_what_has_no_convolutions_is_refused():
    with pytest.raises(ValueError, match=r"takes images of bytes \[C, H, W\], and CartPole-v1 has"):
        ES(env="CartPole-v1", policy="a3c-cnn").build(SearchLayout())
    hidden_layers = "is of the hidden layers of --policy mlp, a3c-cnn and nature-cnn: --policy "
    for policy in ("linear", "torch_policies:Linear"):
        with pytest.raises(ValueError, match=f"{hidden_layers}{policy} has none"):
            ES(env="CartPole-v1", policy=policy, normalization="virtual-batch").build(
                SearchLayout()
            )
    with pytest.raises(ValueError, match=f"{hidden_layers}mlp without --hidden has none"):
        ES(env="CartPole-v1", hidden=(), normalization="virtual-batch").build(SearchLayout())
    with pytest.raises(ValueError, match=f"{hidden_layers}linear has none"):
        ARS(env="CartPole-v1", normalization="virtual-batch").build(SearchLayout())
    with pytest.raises(ValueError, match=r"\[36, 36, 2\], with the channels last"):
        ES(env="pixel_environment:bytes_last", policy="a3c-cnn").build(SearchLayout())
    with pytest.raises(ValueError, match="ars trains linear policies and, on images, a3c-cnn"):
        ARS(env=GAME, policy="mlp")
