"""The scalar log: what a search was told, appended and read again."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.runs.folder import RunError, RunFolder
from drumline.runs.scalar_log import (
    ScalarLog,
    ToldGeneration,
    ToldMember,
    decoded,
    encoded,
    read_scalars,
)
from drumline.types import Moments

FINITE = st.floats(allow_nan=False, width=64)


@st.composite
def generations(draw: st.DrawFn) -> ToldGeneration:
    """Generations with any numbers, and moments of some members."""
    size = draw(st.integers(1, 3))
    member = st.builds(
        ToldMember,
        FINITE,
        FINITE,
        st.integers(0, 2**40),
        st.none()
        | st.builds(
            Moments,
            st.floats(0.0, 1e9),
            st.lists(FINITE, min_size=size, max_size=size).map(np.array),
            st.lists(FINITE, min_size=size, max_size=size).map(np.array),
        ),
    )
    return ToldGeneration(draw(st.integers(0, 2**40)), tuple(draw(st.lists(member, max_size=6))))


def same(one: ToldGeneration, other: ToldGeneration) -> bool:
    """Whether two generations have the same bits: one encoding says all there is."""
    return one.generation == other.generation and encoded(one) == encoded(other)


@given(st.lists(generations(), max_size=3))
def test_what_was_appended_is_read_again(told: list[ToldGeneration]):
    data = b"".join(map(encoded, told))
    read = list(decoded(data))
    assert len(read) == len(told)
    assert all(map(same, read, told))
    for one, other in zip(read, told, strict=True):
        for mine, theirs in zip(one.members, other.members, strict=True):
            assert mine[:3] == theirs[:3]
            assert (mine.moments is None) == (theirs.moments is None)


@settings(max_examples=200)
@given(generations(), st.data())
def test_a_changed_bit_or_a_cut_record_is_noticed(told: ToldGeneration, data: st.DataObject):
    whole = encoded(told)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="a record"):
        list(decoded(bytes(changed)))
    with pytest.raises(ValueError, match="a record"):
        list(decoded(whole[: data.draw(st.integers(1, len(whole) - 1))]))


def test_a_record_is_as_long_as_its_members_and_moments_ask():
    bare, moments = ToldMember(1.0, 1.0, 5, None), Moments(5.0, np.zeros(7), np.zeros(7))
    contributing = bare._replace(moments=moments)
    lengths = [
        len(encoded(ToldGeneration(0, (bare,) * few + (contributing,) * more)))
        for few, more in ((0, 0), (10, 0), (10, 3))
    ]
    assert lengths[1] - lengths[0] == 240
    assert lengths[2] - lengths[1] == 3 * (24 + 12 + 16 * 7)


def log_of(tmp_path: Path, *data: bytes) -> RunFolder:
    place = tmp_path / "scalars"
    place.mkdir()
    for number, each in enumerate(data):
        (place / f"{number:06d}").write_bytes(each)
    return RunFolder(tmp_path, {})


def told(generation: int) -> ToldGeneration:
    return ToldGeneration(generation, (ToldMember(1.5, 2.5, 3, None),) * 4)


def test_a_log_goes_on_in_a_new_file_where_one_is_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumline.runs.scalar_log.SEGMENT_BYTES", 200)
    log = ScalarLog(None)
    names = [log.append(told(generation))[0] for generation in range(5)]
    assert names == ["scalars/000000"] * 2 + ["scalars/000001"] * 2 + ["scalars/000002"]
    assert log.segments == ["scalars/000000", "scalars/000001", "scalars/000002"]


def test_a_record_that_a_kill_cut_ends_the_log(tmp_path: Path):
    first, second = encoded(told(0)), encoded(told(1))
    folder = log_of(tmp_path, first, second + encoded(told(2))[:-9])
    assert [each.generation for each in read_scalars(folder)] == [0, 1]


@pytest.mark.parametrize("data", [(b"x" * 200,), (encoded(told(1)),), (encoded(told(0))[:-9], b"")])
def test_any_other_damage_is_named(tmp_path: Path, data: tuple[bytes, ...]):
    with pytest.raises(RunError, match="damaged"):
        list(read_scalars(log_of(tmp_path, *data)))
