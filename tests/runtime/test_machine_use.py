"""Memory and cores of a process and its descendants, as the dashboard shows them."""

import subprocess
import sys

from drumline.runtime.machine_use import UseSampler

CHILD = """
memory = bytearray(64 << 20)
memory[::4096] = b"1" * len(memory[::4096])
print("there", flush=True)
end = 0
while True:
    end += 1
"""


def newest(sampler: UseSampler):
    sampler.sample()
    assert sampler.newest is not None
    return sampler.newest


def test_a_childs_memory_and_work_are_counted_until_it_ends():
    sampler = UseSampler(sample_seconds=0.0, cost_share=1e9)
    sampler.sample()
    assert sampler.newest is None, "one sample has no rate"
    before = newest(sampler).memory_bytes
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"there\n"
        newest(sampler)
        spent = 0.0
        while not spent:  # until the child had a processor between two samples
            spent = newest(sampler).cores_busy
        assert newest(sampler).memory_bytes - before > 60 << 20
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert newest(sampler).memory_bytes - before < 40 << 20


def test_a_sample_that_is_not_due_costs_nothing(monkeypatch):
    samples: list[int] = []

    def measured():
        samples.append(1)
        return 0, {}

    monkeypatch.setattr("drumline.runtime.machine_use._measured", measured)
    sampler = UseSampler(sample_seconds=1e6)
    sampler.sample()
    sampler.sample()
    assert len(samples) == 1
