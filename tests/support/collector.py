"""A collector of traces for tests: OTLP over HTTP on a port of its own, decoded."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Told(NamedTuple):
    """A span as it came."""

    name: str
    start_ns: int
    end_ns: int
    failed: bool
    trace_id: bytes
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """`spans` are those that came; it answers `status`, once `may_answer` is set."""

    def __init__(self) -> None:
        self.spans: list[Told] = []
        self.paths: set[str] = set()
        self.status = 200
        self.requests = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.requests += 1
                collector.may_answer.wait(60)
                if collector.status == 200:
                    collector.paths.add(self.path)
                    collector.spans += decoded(body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not told."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


def decoded(body: bytes) -> list[Told]:
    found = []
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _values(resource_spans.resource.attributes)
        for scope in resource_spans.scope_spans:
            found += [
                Told(
                    each.name,
                    each.start_time_unix_nano,
                    each.end_time_unix_nano,
                    each.status.code == 2,
                    each.trace_id,
                    _values(each.attributes),
                    resource,
                )
                for each in scope.spans
            ]
    return found


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
