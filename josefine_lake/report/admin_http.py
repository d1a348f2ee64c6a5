"""The admin listener of a table writer: `/health`, `/health/live`, `/health/ready`, `/metrics`.

It answers GET with what the process knows already, and changes nothing. Each connection has a
thread, a deadline and one request; above a bound new connections are closed at once, so silent
clients take neither memory nor descriptors from the tables.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST

from josefine_broker.base.addresses import HostPort

CONNECTIONS_MAX = 16
DEADLINE_S = 5.0
"""For each read of a request and each write of an answer."""


class Answer(NamedTuple):
    """What a page answers."""

    code: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Answer]]


def as_json(is_well: bool, body: Mapping[str, Any]) -> Answer:
    """A page for programs and people; 503 unless all is well."""
    text = json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n"
    return Answer(_code(is_well), text, "application/json")


def as_text(is_well: bool, sentence: str) -> Answer:
    """A probe's page; 503 unless all is well."""
    return Answer(_code(is_well), f"{sentence}\n".encode())


def as_metrics(text: bytes) -> Answer:
    """The page that Prometheus scrapes."""
    return Answer(200, text, CONTENT_TYPE_LATEST)


def _code(is_well: bool) -> int:
    return 200 if is_well else 503


@contextmanager
def served(at: HostPort, pages: Pages) -> Iterator[HostPort]:
    """Serve the pages; yields the bound address. Raises OSError if it cannot be listened on."""
    server = _Server(at, pages)
    thread = threading.Thread(target=server.serve_forever, name="admin", daemon=True)
    thread.start()
    try:
        yield HostPort(at.host, int(server.server_address[1]))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    """A client that reads slowly must not delay the end of the process."""

    def __init__(self, at: HostPort, pages: Pages) -> None:
        self.pages = pages
        self._open = threading.BoundedSemaphore(CONNECTIONS_MAX)
        found = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
        self.address_family = found[0][0]
        super().__init__((str(found[0][4][0]), at.port), _Handler)

    def server_bind(self) -> None:
        # Without the base class's look-up of the host's name, which may take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "josefine", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._open.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closed its connection early is no event."""


class _Handler(BaseHTTPRequestHandler):
    timeout = DEADLINE_S
    server: _Server

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        pages = ", ".join(self.server.pages)
        answer = page() if page else Answer(404, f"no such page; there are {pages}\n".encode())
        with suppress(OSError):
            self.send_response(answer.code)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "josefine"

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""
