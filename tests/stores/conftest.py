from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_server import Relay, environ, s3_server


@pytest.fixture(scope="session")
def server_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_server(tmp_path_factory.mktemp("moto")) as port:
        yield port


@pytest.fixture
def relay(server_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """A relay in front of the server, which S3 clients of this process and its children use."""
    relay = Relay(server_port)
    for name, value in environ(relay.port).items():
        monkeypatch.setenv(name, value)
    yield relay
    relay.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A prefix that no other test uses."""
    return f"s3://runs/{tmp_path.name}"
