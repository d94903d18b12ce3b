"""Products with the matrix of a random subspace, against the matrix itself."""

import numpy as np
import pytest

from drumline.functional.perturbation import TILE, Noise, counter_noise, fill_table, table_noise
from drumline.functional.subspace import Subspace, SubspaceSpec

TABLE = np.zeros(3 * TILE, np.float32)
fill_table(TABLE, seed=5)


def subspace_on(noise: Noise, dimensions: int, parameters: int) -> Subspace:
    return SubspaceSpec(dimensions, parameters, 5).of(noise)


def noise_of(kind: str, parameters: int) -> Noise:
    return table_noise(TABLE, parameters, 5) if kind == "table" else counter_noise(5)


def matrix(noise: Noise, dimensions: int, parameters: int) -> np.ndarray:
    scratch = np.empty(parameters, np.float32)
    columns = [noise.read(key, 0, parameters, scratch).copy() for key in noise.columns(dimensions)]
    return np.stack(columns, axis=1).astype(np.float64) / np.sqrt(dimensions)


@pytest.mark.parametrize("kind", ["table", "counter"])
@pytest.mark.parametrize("parameters", [40, TILE + 100])
def test_a_point_and_a_perturbation_are_products_with_the_matrix(kind: str, parameters: int):
    noise = noise_of(kind, parameters)
    subspace, explicit = subspace_on(noise, 6, parameters), matrix(noise, 6, parameters)
    rng = np.random.default_rng(0)
    origin = rng.standard_normal(parameters).astype(np.float32)
    z = rng.standard_normal(6).astype(np.float32)
    expected = origin + explicit @ z
    np.testing.assert_allclose(subspace.moved(origin, z), expected, rtol=0, atol=1e-5)
    key = noise.keys(3, 0, 2)[1]
    drawn = noise.read(key, 0, 6, np.empty(6, np.float32)).copy()
    found = subspace.reader()(key, 0, parameters, np.empty(parameters, np.float32))
    np.testing.assert_allclose(found, explicit @ drawn, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["table", "counter"])
def test_neither_threads_nor_where_it_is_cut_change_a_bit(kind: str):
    parameters = 2 * TILE + 3
    noise = noise_of(kind, parameters)
    subspace, origin = subspace_on(noise, 3, parameters), np.zeros(parameters, np.float32)
    z = np.array([0.5, -2.0, 1.0], np.float32)
    assert subspace.moved(origin, z).tobytes() == subspace.moved(origin, z, 3).tobytes()
    read, key, scratch = subspace.reader(), noise.keys(0, 0, 1)[0], np.empty(parameters, np.float32)
    whole = read(key, 0, parameters, scratch).copy()
    for start, stop in [(0, 10), (7, TILE + 7), (TILE, 2 * TILE), (TILE - 1, parameters)]:
        assert read(key, start, stop, scratch).tobytes() == whole[start:stop].tobytes()


def test_entries_of_a_perturbation_have_variance_one_in_any_subspace():
    parameters, draws = 200, 400
    for dimensions in (1, 10, 100):
        noise = counter_noise(dimensions)
        read = subspace_on(noise, dimensions, parameters).reader()
        scratch = np.empty(parameters, np.float32)
        keys = noise.keys(0, 0, draws)
        lengths = [np.square(read(key, 0, parameters, scratch)).mean() for key in keys]
        assert np.mean(lengths) == pytest.approx(1.0, abs=0.25)


def test_columns_are_of_no_generation():
    noise = counter_noise(0)
    used = {key for generation in range(50) for key in noise.keys(generation, 0, 50)}
    assert not used & set(noise.columns(50))
    assert noise.columns(5) == noise.columns(8)[:5]
