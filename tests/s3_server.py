"""An S3 server on loopback (moto's, in a process of its own), and a relay in front that fails."""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUCKET = "runs"
KEYS = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback"}


@contextmanager
def s3_server(directory: Path) -> Iterator[int]:
    """Start a server with one bucket; yields its port."""
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (directory / "moto.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(port) or server.poll() is not None)
        make_bucket(port, BUCKET)
        yield port
    finally:
        server.kill()
        server.wait()


def make_bucket(port: int, name: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()


def environ(port: int) -> dict[str, str]:
    """Variables that make every S3 client of a process talk to this port."""
    return {
        **KEYS,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Relay:
    """Passes requests on to a server, except those that `fails` turns into a fault.

    `fails(method, path)` returns None to pass a request on; a number to answer with that status;
    "cut" to close the connection within the request's body; "late" to pass it on after `delay`
    seconds; "lost" to pass it on and close the connection without the answer.
    """

    def __init__(self, port: int):
        self.fails: Callable[[str, str], int | str | None] = lambda method, path: None
        self.delay = 1.0
        self.requests: list[tuple[str, str]] = []
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def relayed(self) -> None:
                relay.requests.append((self.command, self.path))
                fault = relay.fails(self.command, self.path)
                length = int(self.headers.get("Content-Length") or 0)
                if fault == "cut":
                    self.rfile.read(min(length, 100))
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                body = self.rfile.read(length)
                if isinstance(fault, int):
                    self.answer(fault, {}, _error_page(fault))
                    return
                if fault == "late":
                    time.sleep(relay.delay)
                upstream = HTTPConnection("127.0.0.1", port, timeout=60)
                upstream.request(self.command, self.path, body, dict(self.headers))
                with upstream.getresponse() as response:
                    data = response.read()
                    headers = dict(response.getheaders())
                upstream.close()
                if fault == "lost":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.answer(response.status, headers, data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relayed

            def answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                kept = {"content-length", "connection", "transfer-encoding", "date", "server"}
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in kept:
                        self.send_header(name, value)
                length = headers.get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True  # the client has gone

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _error_page(status: int) -> bytes:
    code = {
        403: "InvalidAccessKeyId",
        500: "InternalError",
        503: "SlowDown",
    }[status]
    return (
        f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>asked to fail with {status}'
        "</Message></Error>"
    ).encode()
