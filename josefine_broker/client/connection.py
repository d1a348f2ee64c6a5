"""The protocol state of one connection, without the socket: versions first, then requests in order.

Rules: the first request is ApiVersions (KIP-35); every request is sent in the newest version that
both sides know; answers arrive in request order, so a correlation id other than the oldest in
flight closes the connection. The shell moves bytes and calls `close` when the socket ends.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any

from josefine_broker.base.errors import CorruptData, ErrorCode, Fatal, KafkaError
from josefine_broker.client.sasl import Login
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e

SOFTWARE_NAME = "josefine"
SOFTWARE_VERSION = "0.1.0"
CORRELATION_ID_MAX = 2**31 - 1
TWO_PHASE_SINCE = 6
"""The version of InitProducerId that has fields for a two-phase commit (KIP-939)."""

Buffers = list[Any]
"""Bytes-like objects to send, in order."""


class ConnectionState(Enum):
    """The states of a connection."""

    OPENED = "opened"  # connected, nothing sent yet
    NEGOTIATING = "negotiating"  # ApiVersions is sent
    AUTHENTICATING = "authenticating"  # versions are known; the broker requires a login
    READY = "ready"  # every request may be sent
    CLOSED = "closed"  # nothing more will be sent or accepted


class Event(Enum):
    """The events of a connection."""

    HELLO_SENT = "hello sent"  # ApiVersions was sent, in the newest version not refused yet
    VERSIONS_REFUSED = "versions refused"  # the broker does not know that version of ApiVersions
    VERSIONS_KNOWN = "versions known"  # the broker listed its APIs
    LOGIN_BEGUN = "login begun"  # the broker listed its APIs, and we must authenticate
    LOGGED_IN = "logged in"  # both sides have authenticated
    LOST = "lost"  # the socket closed or failed, or the received bytes are no answer


TRANSITIONS: dict[tuple[ConnectionState, Event], ConnectionState] = {
    (ConnectionState.OPENED, Event.HELLO_SENT): ConnectionState.NEGOTIATING,
    # An old broker answers an ApiVersions version it does not know with error 35 in body v0.
    (ConnectionState.NEGOTIATING, Event.VERSIONS_REFUSED): ConnectionState.OPENED,
    (ConnectionState.NEGOTIATING, Event.VERSIONS_KNOWN): ConnectionState.READY,
    (ConnectionState.NEGOTIATING, Event.LOGIN_BEGUN): ConnectionState.AUTHENTICATING,
    (ConnectionState.AUTHENTICATING, Event.LOGGED_IN): ConnectionState.READY,
    (ConnectionState.AUTHENTICATING, Event.LOST): ConnectionState.CLOSED,
    (ConnectionState.OPENED, Event.LOST): ConnectionState.CLOSED,
    (ConnectionState.NEGOTIATING, Event.LOST): ConnectionState.CLOSED,
    (ConnectionState.READY, Event.LOST): ConnectionState.CLOSED,
    (ConnectionState.CLOSED, Event.LOST): ConnectionState.CLOSED,
}


class Connection:
    """The client's side of one connection. Not thread-safe: its shell owns it."""

    __slots__ = (
        "_client_id",
        "_heard",
        "_hello_version",
        "_in_flight",
        "_login",
        "_next_id",
        "state",
        "versions",
    )

    def __init__(self, client_id: str, login: Login | None = None) -> None:
        """`login`: required if the broker's listener authenticates clients."""
        self._login = login
        self.state = ConnectionState.OPENED
        self.versions: dict[int, int] = {}
        """API key → the version this connection uses; empty until READY."""
        self._client_id = client_id
        self._heard = False
        self._hello_version = apis.APIS[apis.API_VERSIONS].max_version
        self._in_flight: deque[tuple[int, int, int]] = deque()
        self._next_id = 0

    def hello(self) -> Buffers:
        """The request to send now: ApiVersions (again after a refusal), then those of the login."""
        if self.state is ConnectionState.AUTHENTICATING:
            assert self._login is not None
            api_key, asked = self._login.request()
            return self._encode(api_key, self.version_of(api_key), asked, True)
        self._step(Event.HELLO_SENT)
        request = e.api_versions.ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        return self._encode(apis.API_VERSIONS, self._hello_version, request, True)

    def hear_hello(self, frame: memoryview) -> bool:
        """Take the answer to `hello`. False: send `hello` again. Raises KafkaError for a refused
        login."""
        response = self._decode(frame)
        if self.state is ConnectionState.AUTHENTICATING:
            assert self._login is not None
            if not self._login.hear(response):
                return False
            self._step(Event.LOGGED_IN)
            return True
        if response.error_code is ErrorCode.unsupported_version and self._hello_version > 0:
            self._hello_version = 0
            self._step(Event.VERSIONS_REFUSED)
            return False
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, "the broker refused to list its API versions")
        self.versions = common_versions(response.api_keys)
        if self._login is not None:
            self._step(Event.LOGIN_BEGUN)
            return False
        self._step(Event.VERSIONS_KNOWN)
        return True

    def version_of(self, api_key: int) -> int:
        """Raises KafkaError(unsupported_version) for an API that the broker does not serve."""
        version = self.versions.get(api_key)
        if version is None:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"the broker does not serve {apis.APIS[api_key].name} in a version known here",
            )
        return version

    def send(self, api_key: int, request: Any, *, wants_response: bool = True) -> Buffers:
        """The frame of one request. Raises KafkaError(unsupported_version)."""
        assert self.state is ConnectionState.READY, self.state
        version = self.version_of(api_key)
        if version < TWO_PHASE_SINCE and api_key == apis.INIT_PRODUCER_ID:
            _check_one_phase(request)
        return self._encode(api_key, version, request, wants_response)

    def receive(self, frame: memoryview) -> Any:
        """The response in `frame`, which answers the oldest request in flight.

        Raises CorruptData; then the connection is unusable.
        """
        assert self.state is ConnectionState.READY, self.state
        self._heard = True
        return self._decode(frame)

    def begin(self, api_key: int) -> tuple[int, int, str]:
        """Version, correlation id and client id of a request that the caller encodes. Raises
        KafkaError(unsupported_version)."""
        assert self.state is ConnectionState.READY, self.state
        version, correlation_id = self.version_of(api_key), self._take_id()
        self._in_flight.append((correlation_id, api_key, version))
        return version, correlation_id, self._client_id

    def receive_frame(self, frame: memoryview) -> int:
        """The version of the request that the frame answers: the oldest in flight, which `begin`
        has started. The caller decodes it. Raises CorruptData; then the connection is unusable."""
        assert self.state is ConnectionState.READY, self.state
        self._heard = True
        expected_id, _, version = self._in_flight.popleft()
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != expected_id:
            raise CorruptData(f"response {correlation_id} in place of {expected_id}")
        return version

    @property
    def is_unheard(self) -> bool:
        """Whether it may send requests without a login, and had no answer to one yet."""
        return self.state is ConnectionState.READY and not self._heard and self._login is None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def close(self) -> None:
        self._step(Event.LOST)
        self._in_flight.clear()

    def _step(self, event: Event) -> None:
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"connection {self.state.value}: unlisted event {event.value}")
        self.state = next_state

    def _encode(self, api_key: int, version: int, request: Any, wants_response: bool) -> Buffers:
        correlation_id = self._take_id()
        frame = codec.encode_request(api_key, version, correlation_id, self._client_id, request)
        if wants_response:
            self._in_flight.append((correlation_id, api_key, version))
        return list(frame)

    def _take_id(self) -> int:
        taken = self._next_id
        self._next_id = 0 if taken == CORRELATION_ID_MAX else taken + 1
        return taken

    def _decode(self, frame: memoryview) -> Any:
        if not self._in_flight:
            raise CorruptData("the broker sent a response without a request")
        expected_id, api_key, version = self._in_flight.popleft()
        if api_key == apis.API_VERSIONS and _error_code_of_hello(frame) == 35:
            version = 0
        correlation_id, response = codec.decode_response(api_key, version, frame)
        if correlation_id != expected_id:
            raise CorruptData(f"response {correlation_id} in place of {expected_id}")
        return response


def _check_one_phase(request: Any) -> None:
    """Older versions have no field for a two-phase commit: it would become an ordinary transaction,
    with its timeout. Raises KafkaError(unsupported_version)."""
    if request.enable2_pc or request.keep_prepared_txn:
        raise KafkaError(
            ErrorCode.unsupported_version, "the broker does not know two-phase commits (KIP-939)"
        )


def common_versions(served: tuple[e.api_versions.ApiVersion, ...]) -> dict[int, int]:
    """API key → the newest version that both sides know; keys without one are left out."""
    chosen = {}
    for api in served:
        spec = apis.APIS.get(api.api_key)
        if spec is None:
            continue
        newest = min(spec.max_version, api.max_version)
        if newest >= max(spec.min_version, api.min_version):
            chosen[api.api_key] = newest
    return chosen


def _error_code_of_hello(frame: memoryview) -> int:
    """ApiVersions always has response header v0, so its error code is at byte 4."""
    return int.from_bytes(frame[4:6], "big", signed=True)
