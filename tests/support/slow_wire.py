"""A network cable between two namespaces that can be made slow: Ethernet frames through a process.

Rules: frames keep their order and none is lost; only what the host sends is late, by a delay and up
to a quarter of it more. (`tc netem` does the same where the kernel has it; most small kernels do
not.)
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import threading
import time
from collections import deque
from contextlib import suppress

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x2, 0x1000
FRAME_BYTES_MAX = 65_536
STOP_CHECK_S = 0.1


def open_tap(name: str) -> int:
    """A new Ethernet device in the network namespace of this thread; the file of its frames."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


class SlowWire:
    """Carries frames both ways until `close`."""

    def __init__(self, host: int, switch: int) -> None:
        """The files of two Ethernet devices; this object closes them."""
        self.delay_s = 0.0
        self._to = {host: switch, switch: host}
        self._host = host
        self._waiting: dict[int, deque[tuple[float, bytes]]] = {host: deque(), switch: deque()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="slow wire", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for tap in self._to:
            os.close(tap)

    def _carry(self) -> None:
        while not self._stop.is_set():
            now_s = time.monotonic()
            due_s = [waiting[0][0] for waiting in self._waiting.values() if waiting]
            wait_s = min([STOP_CHECK_S, *(max(0.0, each - now_s) for each in due_s)])
            readable, _, _ = select.select(list(self._to), (), (), wait_s)
            for tap in readable:
                self._take(tap)
            now_s = time.monotonic()
            for tap, waiting in self._waiting.items():
                while waiting and waiting[0][0] <= now_s:
                    with suppress(OSError):  # the device is down: cut off, as a cable is
                        os.write(self._to[tap], waiting.popleft()[1])

    def _take(self, tap: int) -> None:
        waiting = self._waiting[tap]
        with suppress(BlockingIOError, OSError):
            while True:
                frame = os.read(tap, FRAME_BYTES_MAX)
                late_s = self.delay_s * (1 + random.random() / 4) if tap == self._host else 0.0
                due_s = time.monotonic() + late_s
                waiting.append((max(due_s, waiting[-1][0] if waiting else 0.0), frame))
