"""A REST catalog of Iceberg for tests: the few endpoints that a sink asks, over a SQLite catalog.

It answers as the specification says (open-api/rest-catalog-open-api.yaml of Apache Iceberg), wants
a token for the credential, and can lose an answer after it has committed.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

CREDENTIAL, TOKEN = "client:hush", "a-token"
CODES: tuple[tuple[type[Exception], int], ...] = (
    (NoSuchTableError, 404),
    (NoSuchNamespaceError, 404),
    (TableAlreadyExistsError, 409),
    (NamespaceAlreadyExistsError, 409),
    (CommitFailedException, 409),
)


class RestCatalogServer:
    """Listens from `__enter__` on. Mutable: how many answers of commits are still to be lost."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog(
            "rest", uri=f"sqlite:///{folder}/rest.db", warehouse=f"file://{folder}/rest"
        )
        self.answers_to_lose = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RestCatalogServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """(status, body) of one request below /v1/."""
        match method, path.split("/"):
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                self.catalog.create_namespace(tuple(body["namespace"]))
                return 200, {"namespace": body["namespace"]}
            case "POST", ["namespaces", namespace, "tables"]:
                schema = Schema.model_validate(body["schema"])
                name = (namespace, body["name"])
                return 200, _loaded(
                    self.catalog.create_table(name, schema, properties=body["properties"])
                )
            case "GET", ["namespaces", namespace, "tables", table]:
                return 200, _loaded(self.catalog.load_table((namespace, table)))
            case "POST", ["namespaces", namespace, "tables", table]:
                request = CommitTableRequest.model_validate(body)
                done = self.catalog.commit_table(
                    self.catalog.load_table((namespace, table)),
                    request.requirements,
                    request.updates,
                )
                if self.answers_to_lose:
                    self.answers_to_lose -= 1
                    return 502, _error("the answer is lost", 502)
                return 200, json.loads(done.model_dump_json(by_alias=True))
        return 404, _error(f"{method} {path}", 404)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                self.reply("GET", None)

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/oauth/tokens":
                    known = f"client_secret={CREDENTIAL.partition(':')[2]}" in text.decode()
                    token = {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
                    self.send(200 if known else 401, token if known else _error("who?", 401))
                    return
                self.reply("POST", json.loads(text))

            def reply(self, method: str, body: Any) -> None:
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    self.send(401, _error("no token", 401))
                    return
                path = self.path.partition("?")[0].removeprefix("/v1/")
                try:
                    self.send(*outer.answer(method, path, body))
                except tuple(kind for kind, _ in CODES) as error:
                    code = next(code for kind, code in CODES if isinstance(error, kind))
                    self.send(code, _error(str(error), code, type(error).__name__))

            def send(self, status: int, body: Any) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler


def _loaded(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(message: str, code: int, kind: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind or "Error", "code": code}}
