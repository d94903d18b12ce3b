"""A link between two interfaces whose frames come late, and of which some are lost.

    python lossy_link.py whole INTERFACE…                     frames leave whole, with checksums
    python lossy_link.py relay ONE OTHER SECONDS SHARE SEED   until SIGTERM; then counts to stdout

The kernel here has no netem, so frames are relayed in user space. Their order stays.
"""

import ctypes
import fcntl
import random
import select
import signal
import socket
import struct
import sys
import time
from collections import deque

SIOCETHTOOL = 0x8946
OFFLOADS = {"transmit checksums": 0x17, "segments": 0x1F, "generic segments": 0x24}
"""Commands of ethtool that switch one off: a relay sees what the kernel leaves to hardware."""
ALL_PROTOCOLS = 3
LARGEST = 1 << 16


def whole(interface: str) -> None:
    """Let the kernel compute checksums and cut segments itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS.values():
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            name = interface.encode().ljust(16, b"\0")
            request = struct.pack("16sP", name, ctypes.addressof(value)).ljust(40, b"\0")
            fcntl.ioctl(control.fileno(), SIOCETHTOOL, request)


def relay(one: str, other: str, seconds: float, share: float, seed: int) -> None:
    """Carry frames both ways, each after `seconds`, but for a `share` of them."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    rng = random.Random(seed)
    sockets: list[socket.socket] = []
    for interface in (one, other):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        raw.bind((interface, 0))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        sockets.append(raw)
    due: deque[tuple[float, socket.socket, bytes]] = deque()
    carried = lost = large = 0
    print("ready", flush=True)
    while not stopped:
        patience = max(0.0, due[0][0] - time.perf_counter()) if due else 0.1
        for raw in select.select(sockets, [], [], patience)[0]:
            frame, (_, _, kind, *_) = raw.recvfrom(LARGEST)
            if kind == socket.PACKET_OUTGOING:
                continue  # what the relay itself has sent
            if rng.random() < share:
                lost += 1
                continue
            target = sockets[1] if raw is sockets[0] else sockets[0]
            due.append((time.perf_counter() + seconds, target, frame))
        while due and due[0][0] <= time.perf_counter():
            _, target, frame = due.popleft()
            try:
                target.send(frame)
                carried += 1
            except OSError:
                large += 1  # longer than the link takes: lost, too
    print(carried, lost, large, flush=True)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "whole":
        for name in rest:
            whole(name)
    else:
        relay(rest[0], rest[1], float(rest[2]), float(rest[3]), int(rest[4]))
