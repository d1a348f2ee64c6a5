"""A schema registry on the loopback that knows a few schemas, and what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_IDS, _SUBJECTS = "/api/schemas/ids/", "/api/subjects/"

Said = str | Mapping[str, object]
"""A schema's text, or the whole answer: `schema`, `schemaType`, `references`."""


class SchemaRegistry:
    """`seen`: each request's path and its Authorization, "" where it had none. `subjects`: the
    schemas that others refer to, by "SUBJECT/versions/VERSION". `subjects_of`: those of an id."""

    def __init__(
        self,
        schemas: Mapping[int, Said],
        redirect_to: str = "",
        subjects: Mapping[str, Said] | None = None,
    ) -> None:
        self.schemas, self.subjects = dict(schemas), dict(subjects or {})
        self.subjects_of: dict[int, tuple[str, ...]] = {}
        self.seen: list[tuple[str, str]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.seen.append((self.path, self.headers.get("Authorization", "")))
                if redirect_to:
                    self.send_response(302)
                    self.send_header("Location", redirect_to)
                    self.end_headers()
                    return
                status, said = registry.answer(self.path)
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing: `seen` has it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, path: str) -> tuple[int, object]:
        """(HTTP status, the body's JSON)."""
        path = path.partition("?")[0]
        if path.startswith(_IDS) and path.endswith("/versions"):
            number = int(path.removeprefix(_IDS).removesuffix("/versions"))
            found = self.subjects_of.get(number, ())
            return 200, [{"subject": each, "version": 1} for each in found]
        said: Said | None
        if path.startswith(_SUBJECTS):
            said = self.subjects.get(unquote(path.removeprefix(_SUBJECTS)))
            unknown = 40401
        else:
            said, unknown = self.schemas.get(int(path.removeprefix(_IDS))), 40403
        if said is None:
            return 404, {"error_code": unknown, "message": "Not found"}
        return 200, {"schema": said} if isinstance(said, str) else said

    def url(self, user: str = "") -> str:
        """Its address as a file says it."""
        return f"http://{user}{'@' if user else ''}127.0.0.1:{self.server.server_port}/api/"


@contextmanager
def serving(
    schemas: Mapping[int, Said],
    redirect_to: str = "",
    subjects: Mapping[str, Said] | None = None,
) -> Iterator[SchemaRegistry]:
    """A registry that answers until the end of the block."""
    registry = SchemaRegistry(schemas, redirect_to, subjects)
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join(10)
        registry.server.server_close()
