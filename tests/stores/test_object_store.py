"""Objects on a real S3 server and in a directory, and a sentence for every fault."""

import os
import resource
from pathlib import Path

import pytest
from s3_server import KEYS, Relay, free_port

from drumline.stores.object_store import NoObject, ObjectStore, StoreError, TooLarge


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, relay: Relay, url: str, tmp_path: Path) -> ObjectStore:
    return ObjectStore(url if request.param == "s3" else f"file://{tmp_path}/objects")


def test_an_object_has_the_bytes_that_were_put(store: ObjectStore):
    store.put("files/a/0", b"one")
    store.put("files/a/0", b"other")
    assert store.get("files/a/0", 5) == b"other"
    assert store.names("files") == ["files/a/0"]


def test_an_object_that_is_not_there_has_a_fault_of_its_own(store: ObjectStore):
    assert store.names("files") == []
    with pytest.raises(NoObject, match="has no files/b"):
        store.get("files/b", 5)


def test_a_path_with_the_word_bucket_in_it_is_no_missing_bucket(tmp_path: Path):
    store = ObjectStore(f"file://{tmp_path}/my-bucket/run")
    assert store.names("files") == []
    with pytest.raises(NoObject, match=r"has no drumline\.json"):
        store.get("drumline.json", 5)


def test_an_object_that_is_gone_keeps_no_other_from_being_removed(store: ObjectStore):
    for name in "abc":
        store.put(f"files/{name}", b"x")
    store.remove(["files/a"])
    store.remove(["files/a", "files/b", "files/c"])
    assert store.names("files") == []


@pytest.mark.parametrize("place", ["s3://runs", "file://", "memory://runs"])
@pytest.mark.parametrize("last", ["run[1]", "run?", "run*"])
def test_signs_of_patterns_in_a_prefix_are_letters_as_any_other(
    relay: Relay, tmp_path: Path, place: str, last: str
):
    # Each of the three prefixes, as a pattern, fits that of the other run.
    path = tmp_path if place == "file://" else f"/{tmp_path.name}-{last.encode().hex()}"
    store, other = (ObjectStore(f"{place}{path}/{word}") for word in (last, "run1"))
    for each in (store, other):
        for name in "abc":
            each.put(f"files/{name}", name.encode())
    assert store.names("files") == ["files/a", "files/b", "files/c"]
    store.remove(["files/a", "files/c"])
    store.remove(["files/a"])
    assert store.names("files") == ["files/b"]
    assert other.names("files") == ["files/a", "files/b", "files/c"]


def test_signs_of_patterns_in_a_name_remove_no_other_object(store: ObjectStore):
    for name in "ab*":
        store.put(f"files/{name}", name.encode())
    store.remove(["files/*"])
    assert store.names("files") == ["files/a", "files/b"]


def test_an_object_that_is_gone_keeps_no_other_in_memory(tmp_path: Path):
    store = ObjectStore(f"memory://{tmp_path.name}")
    for name in "abc":
        store.put(f"files/{name}", b"x")
    store.remove(["files/b"])
    store.remove(["files/a", "files/b", "files/c"])
    assert store.names("files") == []


def test_a_write_that_fails_leaves_no_file(tmp_path: Path):
    store = ObjectStore(f"file://{tmp_path}/objects")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # fails as on a full disk
    try:
        with pytest.raises(StoreError, match="File too large"):
            store.put("files/a", bytes(200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.names("") == []
    store.put("files/a", bytes(200_000))
    assert store.names("") == ["files/a"]


def test_no_more_bytes_than_the_limit_are_taken(store: ObjectStore):
    store.put("files/large", b"12345")
    with pytest.raises(TooLarge, match="more than 4 bytes"):
        store.get("files/large", 4)


def test_a_new_object_is_never_one_that_was_there(store: ObjectStore):
    assert store.put_new("claim", b"mine")
    assert not store.put_new("claim", b"yours")
    assert store.get("claim", 9) == b"mine"


def test_a_write_of_a_new_object_that_fails_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Else an empty claim would block the prefix for ever."""
    store = ObjectStore(f"file://{tmp_path / 'store'}")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            store.put_new("claim", b"whole")
    assert store.names("") == []
    assert store.put_new("claim", b"whole")
    assert not store.put_new("claim", b"another")
    assert store.get("claim", 99) == b"whole"
    assert store.names("") == ["claim"]


def full(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_removing_twice_is_no_error(store: ObjectStore):
    for name in ("files/a", "files/b", "kept"):
        store.put(name, b"x")
    for _ in range(2):
        store.remove(["files/a", "files/b"])
    assert store.names("files") == []
    assert store.get("kept", 1) == b"x"


def test_each_wrong_url_has_a_sentence():
    with pytest.raises(StoreError, match=r"no URL, such as s3://bucket/prefix"):
        ObjectStore("runs/here")
    with pytest.raises(StoreError, match="Protocol not known: tape"):
        ObjectStore("tape://a/b")
    with pytest.raises(StoreError, match=r"not installed .*gcsfs"):
        ObjectStore("gs://bucket/run")
    with pytest.raises(StoreError, match="password"):
        ObjectStore("sftp://me:secret@host/run")
    with pytest.raises(StoreError, match=r"^--store memory://run\[1\] is no URL \('1' does not"):
        ObjectStore("memory://run[1]")


def test_a_missing_bucket_is_named(relay: Relay):
    with pytest.raises(StoreError, match=r"the bucket of s3://elsewhere/run does not exist"):
        ObjectStore("s3://elsewhere/run").get("claim", 9)


def test_missing_credentials_are_named(relay: Relay, monkeypatch: pytest.MonkeyPatch):
    for name in KEYS:
        monkeypatch.delenv(name)
    with pytest.raises(StoreError, match=r"no credentials for s3://runs/x .*AWS_ACCESS_KEY_ID"):
        ObjectStore("s3://runs/x").put("claim", b"")


def test_wrong_credentials_are_named(relay: Relay):
    relay.fails = lambda method, path: 403
    with pytest.raises(StoreError, match="does not take these credentials"):
        ObjectStore("s3://runs/x").put("claim", b"")


def test_an_unreachable_server_is_named(relay: Relay, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StoreError, match=r"s3://runs/x cannot be used \(Could not connect"):
        ObjectStore("s3://runs/x").put("claim", b"")


@pytest.mark.parametrize("fault", [500, 503, "cut", "lost"])
def test_a_failed_upload_is_an_error_and_leaves_no_half_of_an_object(
    relay: Relay, url: str, fault: int | str
):
    store = ObjectStore(url)
    store.put("files/before", b"x")
    relay.fails = lambda method, path: fault if method == "PUT" else None
    with pytest.raises(StoreError, match="cannot be used"):
        store.put("files/now", bytes(300_000))
    relay.fails = lambda method, path: None
    there = store.names("files")
    assert there == (["files/before", "files/now"] if fault == "lost" else ["files/before"])
    store.put("files/now", bytes(300_000))
    assert store.get("files/now", 300_000) == bytes(300_000)
