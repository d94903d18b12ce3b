import errno
import os
from pathlib import Path

import numpy as np
import pytest
from descriptors import open_descriptors

from drumline.protocols import PublishedLayout
from drumline.runtime import shared_arrays
from drumline.runtime.shared_arrays import SharedArrays

LAYOUT = PublishedLayout(
    {"rewards": ((3, 5), "<f4"), "done": ((7,), "|b1"), "step": ((), "<i8"), "none": ((0,), "<f8")}
)


def test_arrays_start_as_zeros_of_the_layout_each_on_a_cache_line_of_its_own():
    memory = SharedArrays.create(LAYOUT)
    assert PublishedLayout.of(memory.arrays) == LAYOUT
    assert not any(array.any() for array in memory.arrays.values())
    starts = [array.__array_interface__["data"][0] for array in memory.arrays.values()]
    assert all(start % 64 == 0 for start in starts)
    memory.close()


def test_what_one_side_writes_the_other_reads():
    memory = SharedArrays.create(LAYOUT)
    other = SharedArrays.attach(os.dup(memory.fd), LAYOUT)
    memory.arrays["rewards"][1, 2] = 4.5
    other.arrays["step"][()] = 9
    assert other.arrays["rewards"][1, 2] == 4.5
    assert memory.arrays["step"] == 9
    other.close()
    memory.close()


def test_memory_has_no_name_in_dev_shm():
    memory = SharedArrays.create(LAYOUT)
    target = os.readlink(f"/proc/self/fd/{memory.fd}")
    assert target.endswith("(deleted)")
    assert not list(Path("/dev/shm").glob("*drumline*"))
    memory.close()


def test_without_memfd_an_unlinked_file_takes_its_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    memory = SharedArrays.create(LAYOUT)
    assert os.readlink(f"/proc/self/fd/{memory.fd}").endswith("(deleted)")
    memory.arrays["step"][()] = 3
    memory.close()


def test_a_full_folder_in_the_place_of_memfd_is_named(monkeypatch: pytest.MonkeyPatch):
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    before = open_descriptors()
    with pytest.raises(MemoryError, match=r"TMPDIR.*No space left.*'rewards' \[3, 5\]"):
        SharedArrays.create(LAYOUT)
    assert open_descriptors() == before


def test_too_large_a_layout_is_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_arrays, "available_bytes", lambda: 2**30)
    layout = PublishedLayout({"small": ((1,), "<f4"), "replay": ((2**20, 2**10), "<f4")})
    with pytest.raises(MemoryError, match=r"need 4\.0 GiB, but only 1\.0 GiB .* 'replay'"):
        SharedArrays.create(layout)


def test_available_memory_is_known_here():
    available = shared_arrays.available_bytes()
    assert available is not None
    assert available > 2**20


def test_python_objects_are_refused():
    with pytest.raises(ValueError, match="holds Python objects"):
        SharedArrays.create(PublishedLayout({"names": ((2,), "|O")}))


def test_closing_frees_the_descriptors_and_may_be_done_twice():
    before = open_descriptors()
    memory = SharedArrays.create(LAYOUT)
    memory.close()
    memory.close()
    assert open_descriptors() == before
    with pytest.raises(ValueError, match="closed"):
        _ = memory.fd


def test_a_view_outlives_its_memory_and_stays_readable():
    memory = SharedArrays.create(LAYOUT)
    view = memory.arrays["rewards"]
    view[:] = 2
    memory.close()
    assert np.all(view == 2)


def test_a_bound_on_the_size_of_files_is_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(shared_arrays, "_allocate", refuse)
    with pytest.raises(MemoryError, match=r"ulimit -f"):
        SharedArrays.create(LAYOUT)
