"""The log of updates: what brings a replica of any version to the newest."""

import numpy as np
import pytest

from drumline.runtime.cluster.replicas import LONGEST_LOG, Record, UpdateLog, digest_of
from drumline.types import State

BASE = State({"parameters": np.zeros(100, np.float32)})


def log_of(*records: bytes) -> UpdateLog:
    log = UpdateLog(lambda shared, threads: pytest.fail("not needed"), 5, BASE)
    for data in records:
        log.append(Record(data, 0))
    return log


def test_a_node_without_a_replica_gets_the_base_and_all_records():
    route = log_of(b"a", b"b").route(None)
    assert (route.base, route.base_version) == (BASE, 5)
    assert [record.data for record in route.records] == [b"a", b"b"]


def test_a_late_replica_gets_only_the_records_that_it_lacks():
    log = log_of(b"a", b"b", b"c")
    for since, records in [(5, [b"a", b"b", b"c"]), (7, [b"c"]), (8, [])]:
        route = log.route(since)
        assert route.base is None
        assert [record.data for record in route.records] == records


def test_a_replica_older_than_the_base_gets_the_base():
    log = log_of(b"a", b"b", b"c")
    newer = State({"parameters": np.ones(100, np.float32)})
    log.renew(7, newer)
    assert log.version == 7
    log.append(Record(b"d", 0))
    assert log.route(6).base is newer
    assert [record.data for record in log.route(7).records] == [b"d"]


def test_a_log_is_long_once_a_new_base_would_be_less():
    assert not log_of(b"x" * 400).is_long  # as many bytes as the base
    assert log_of(b"x" * 401).is_long
    assert not log_of(*[b""] * (LONGEST_LOG - 1)).is_long
    assert log_of(*[b""] * LONGEST_LOG).is_long


def test_watchers_see_every_record_at_once_until_they_leave():
    log, seen = log_of(), []

    def watcher() -> None:
        seen.append(log.version)

    log.watch(watcher)
    log.append(Record(b"a", 0))
    log.append(Record(b"b", 0))
    log.unwatch(watcher)
    log.append(Record(b"c", 0))
    assert seen == [6, 7]


def test_a_digest_follows_every_bit_name_shape_and_dtype():
    arrays = {"a": np.arange(6, dtype=np.float32), "b": np.zeros((0, 2))}
    flipped = arrays["a"].copy()
    flipped.view(np.uint32)[3] ^= 1
    others = [
        {**arrays, "a": flipped},
        {"c": arrays["a"], "b": arrays["b"]},
        {**arrays, "a": arrays["a"].reshape(2, 3)},
        {**arrays, "a": arrays["a"].view(np.int32)},
        {"a": arrays["a"]},
    ]
    assert digest_of(dict(reversed(arrays.items()))) == digest_of(arrays)
    assert len({digest_of(each) for each in [arrays, *others]}) == 6
