"""Cores and memory in a container: the smallest limit on the way up through its control groups."""

import os
from pathlib import Path

import pytest

from drumline.runtime.cores import usable_cores
from drumline.runtime.machine_limits import machine_limits
from drumline.runtime.shared_arrays import available_bytes

V2 = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_CPU = "33 31 0:30 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "36 31 0:33 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
GIB = 2**30


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def on_a_large_machine(monkeypatch: pytest.MonkeyPatch, cores: int = 96, allowed: int = 96) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(allowed)), raising=False)


def test_two_cores_of_a_quota_of_version_2_are_two_of_ninety_six(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    on_a_large_machine(monkeypatch)
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
        },
    )
    cores = usable_cores(root)
    assert (cores.usable, cores.machine) == (2, 96)
    assert str(cores) == "2 of 96, by the CPU quota of 2 in /sys/fs/cgroup/cpu.max"


@pytest.mark.parametrize("smallest", ["", "/pods", "/pods/mine"])
def test_the_smallest_quota_of_nested_groups_counts_whichever_group_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smallest: str
):
    on_a_large_machine(monkeypatch)
    quotas = dict.fromkeys(("", "/pods", "/pods/mine"), "800000 100000")
    quotas[smallest] = "250000 100000"
    files = {f"sys/fs/cgroup{group}/cpu.max": text for group, text in quotas.items()}
    root = tree(
        tmp_path, {"proc/self/cgroup": "0::/pods/mine\n", "proc/self/mountinfo": V2, **files}
    )
    cores = usable_cores(root)
    assert cores.usable == 3  # two and a half: the third process uses up the half
    assert f"/sys/fs/cgroup{smallest}/cpu.max" in cores.bound


def test_a_quota_of_version_1_counts_and_minus_one_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    on_a_large_machine(monkeypatch)
    folder = "sys/fs/cgroup/cpu,cpuacct"
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/a/b\n0::/\n",
        "proc/self/mountinfo": V1_CPU.format(top="/"),
        f"{folder}/a/cpu.cfs_quota_us": "400000\n",
        f"{folder}/a/cpu.cfs_period_us": "100000\n",
        f"{folder}/a/b/cpu.cfs_quota_us": "-1\n",
        f"{folder}/a/b/cpu.cfs_period_us": "100000\n",
    }
    cores = usable_cores(tree(tmp_path, files))
    assert cores.usable == 4
    assert "/a/cpu.cfs_quota_us" in cores.bound


@pytest.mark.parametrize("top", ["/docker/1f3", "/elsewhere"])
def test_a_container_whose_own_group_is_mounted_as_the_top_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str
):
    on_a_large_machine(monkeypatch)
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/1f3\n3:memory:/docker/1f3\n",
        "proc/self/mountinfo": (V1_CPU + V1_MEMORY).format(top=top),
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
    }
    root = tree(tmp_path, files)
    assert usable_cores(root).usable == 1
    assert machine_limits(root).memory == GIB


def test_affinity_counts_where_it_is_the_smaller_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    on_a_large_machine(monkeypatch, allowed=3)
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": V2,
        "sys/fs/cgroup/cpu.max": "800000 100000\n",
    }
    assert str(usable_cores(tree(tmp_path, files))) == (
        "3 of 96, by the CPU affinity of this process"
    )


@pytest.mark.parametrize("text", ["max 100000", "", "nonsense", "0 100000"])
def test_without_a_quota_all_cores_are_usable_and_no_bound_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    on_a_large_machine(monkeypatch)
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": V2,
        "sys/fs/cgroup/cpu.max": text,
    }
    assert str(usable_cores(tree(tmp_path, files))) == "96 of 96"
    assert str(usable_cores(tmp_path / "empty")) == "96 of 96"


def test_a_thousandth_of_a_core_is_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    on_a_large_machine(monkeypatch)
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": V2,
        "sys/fs/cgroup/cpu.max": "1000 1000000",
    }
    assert usable_cores(tree(tmp_path, files)).usable == 1


def test_memory_is_what_the_tightest_group_and_the_machine_leave(tmp_path: Path):
    files = {
        "proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {64 * GIB // 1024} kB\n",
        "proc/self/cgroup": "0::/outer/inner\n",
        "proc/self/mountinfo": V2,
        "sys/fs/cgroup/outer/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/outer/memory.current": f"{3 * GIB}\n",
        "sys/fs/cgroup/outer/memory.stat": f"anon 5\ninactive_file {GIB}\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
    }
    root = tree(tmp_path, files)
    assert machine_limits(root).memory == 4 * GIB
    assert machine_limits(root).memory_file == "/sys/fs/cgroup/outer/memory.max"
    assert available_bytes(root) == 2 * GIB
    (root / "proc/meminfo").write_text("MemAvailable: 7 kB\n")
    assert available_bytes(root) == 7 * 1024


def test_memory_of_version_1_counts_and_its_huge_number_is_no_limit(tmp_path: Path):
    folder = "sys/fs/cgroup/memory"
    files = {
        "proc/self/cgroup": "3:memory:/mine\n",
        "proc/self/mountinfo": V1_MEMORY.format(top="/"),
        f"{folder}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{folder}/mine/memory.limit_in_bytes": f"{GIB}\n",
        f"{folder}/mine/memory.usage_in_bytes": f"{GIB // 2}\n",
        f"{folder}/mine/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 4}\n",
    }
    root = tree(tmp_path, files)
    assert machine_limits(root).memory == GIB
    assert available_bytes(root) == 3 * GIB // 4
