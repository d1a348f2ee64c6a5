"""The clients that push metrics, and their last numbers (KIP-714). Sans-I/O: time is monotonic and
an argument.

A client gets its subscription, then pushes at the interval that it was given. What comes earlier
than that is refused, so that no client costs more than another. A client that pushed nothing for
three intervals is forgotten, and the oldest ones if there are too many, or if they have too much
text. Without prefixes no client is asked, and one that asks or pushes is refused.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from josefine_broker.base.errors import CorruptData, ErrorCode, ExpandsTooFarError, KafkaError
from josefine_broker.engine.telemetry.otlp_metrics import TEXT_MAX, Point, points_of
from josefine_broker.records.codecs import Compression
from josefine_broker.records.compression import decompress

CLIENTS_MAX = 1_000
"""Above this the client that was heard of least recently is forgotten."""
CHARACTERS_MAX = 16 << 20
"""Of the names and attributes of all clients, with POINT_CHARACTERS for each number."""
POINT_CHARACTERS = 100
EXPANSION_MAX = 10
"""Decompressed metrics may be this many times the limit of a push."""
FORGOTTEN_AFTER = 3
"""Intervals without a push."""
COMPRESSIONS = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In order of preference, as Kafka lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsSettings:
    """What clients are asked to push."""

    prefixes: tuple[str, ...] = ()
    """Of metric names, without `org.apache.kafka.`; "*" is all. None: clients are not asked."""
    push_interval_ms: int = 300_000
    push_bytes_max: int = 1 << 20

    @property
    def requested(self) -> tuple[str, ...]:
        """As clients expect it: an empty prefix is all."""
        return ("",) if "*" in self.prefixes else self.prefixes

    @property
    def subscription_id(self) -> int:
        """Another number for other settings, the same on each broker: an int32."""
        number = zlib.crc32(repr((self.requested, self.push_interval_ms)).encode())
        return number - (1 << 32) if number >> 31 else number


@dataclass(slots=True, kw_only=True)
class _Client:
    client_id: str
    got_ms: int
    """When it last got its subscription."""
    pushed_ms: int | None = None
    may_get_again: bool = False
    """Its last push was refused for its subscription or its compression."""
    is_terminating: bool = False
    points: list[Point] = field(default_factory=list)
    characters: int = 0
    """Those of its points: see CHARACTERS_MAX."""

    @property
    def heard_ms(self) -> int:
        return self.got_ms if self.pushed_ms is None else max(self.got_ms, self.pushed_ms)


class ClientMetrics:
    """The clients of one broker. Mutable: each is changed by its own requests."""

    def __init__(self, settings: ClientMetricsSettings) -> None:
        self.settings = settings
        self.pushes = 0
        self.pushes_refused = 0
        self._clients: dict[UUID, _Client] = {}
        self._characters = 0

    def subscribe(self, instance: UUID, client_id: str, now_ms: int) -> None:
        """A client asks for its subscription. Raises KafkaError if it asks too often."""
        self._require_asked()
        client = self._clients.get(instance)
        if client is None:
            self._make_room(now_ms)
            self._clients[instance] = _Client(client_id=client_id[:TEXT_MAX], got_ms=now_ms)
            return
        # KIP-714: a client may ask once per interval, and at once after a push, or after an error
        # that a new subscription resolves.
        has_pushed = client.pushed_ms is not None and client.pushed_ms >= client.got_ms
        may = has_pushed or client.may_get_again
        if not may and now_ms - client.got_ms < self.settings.push_interval_ms:
            raise self._refused(ErrorCode.throttling_quota_exceeded, "asked again too early")
        client.got_ms, client.may_get_again = now_ms, False
        self._clients[instance] = self._clients.pop(instance)

    def push(
        self,
        instance: UUID,
        subscription_id: int,
        compression: int,
        data: bytes | memoryview,
        now_ms: int,
        *,
        is_terminating: bool,
    ) -> None:
        """A client's numbers take the place of its last ones. Raises KafkaError."""
        self._require_asked()
        client = self._clients.get(instance)
        if client is None or subscription_id != self.settings.subscription_id:
            if client is not None:
                client.may_get_again = True
            raise self._refused(ErrorCode.unknown_subscription_id, "not the subscription here")
        if client.is_terminating:
            raise self._refused(ErrorCode.invalid_request, "the client has terminated")
        # The first push after a subscription may come at any time: clients spread it over half an
        # interval, so that a restarted fleet does not push at once.
        last_ms = client.pushed_ms
        is_first = last_ms is None or client.got_ms > last_ms
        is_early = not is_first and now_ms - (last_ms or 0) < self.settings.push_interval_ms
        if is_early and not is_terminating:
            raise self._refused(ErrorCode.throttling_quota_exceeded, "pushed too early")
        # A push that cannot be read counts, too: else a client could send rubbish at any rate.
        client.pushed_ms, client.is_terminating = now_ms, is_terminating
        self._clients[instance] = self._clients.pop(instance)
        self._keep(client, self._points(client, compression, data))
        self.pushes += 1

    def _require_asked(self) -> None:
        """A client that sees the API in no ApiVersions may send it all the same."""
        if not self.settings.prefixes:
            raise KafkaError(ErrorCode.unsupported_version, "no client is asked for metrics")

    def _keep(self, client: _Client, points: list[Point]) -> None:
        """The client's points for its last ones; the silent ones give way if there is no room."""
        self._characters -= client.characters
        client.points = points
        client.characters = sum(len(each.name) + len(each.of) + POINT_CHARACTERS for each in points)
        self._characters += client.characters
        # The one that pushed is the last of them, and one push is always within the bound.
        while self._characters > CHARACTERS_MAX:
            self._forget(next(iter(self._clients)))

    def _forget(self, instance: UUID) -> None:
        self._characters -= self._clients.pop(instance).characters

    def _points(self, client: _Client, compression: int, data: bytes | memoryview) -> list[Point]:
        if len(data) > self.settings.push_bytes_max:
            raise self._refused(ErrorCode.telemetry_too_large, f"{len(data)} bytes")
        if compression not in (Compression.NONE, *COMPRESSIONS):
            client.may_get_again = True
            raise self._refused(ErrorCode.unsupported_compression_type, str(compression))
        try:
            bytes_max = EXPANSION_MAX * self.settings.push_bytes_max
            return points_of(bytes(decompress(compression, data, bytes_max=bytes_max)))
        except ExpandsTooFarError as error:
            raise self._refused(ErrorCode.telemetry_too_large, "it expands too far") from error
        except CorruptData as error:
            raise self._refused(ErrorCode.invalid_record, str(error)) from error

    def series(self, now_ms: int) -> Iterator[tuple[UUID, str, Point]]:
        """(client instance, client id, number) of the clients that are still heard of."""
        for instance, client in self._clients.items():
            if not self._is_forgotten(client, now_ms):
                for point in client.points:
                    yield instance, client.client_id, point

    def _make_room(self, now_ms: int) -> None:
        """Forget who is silent; then, above the bound, who was heard of least recently: each
        request moves its client to the end."""
        for instance in [
            each for each, client in self._clients.items() if self._is_forgotten(client, now_ms)
        ]:
            self._forget(instance)
        while len(self._clients) >= CLIENTS_MAX:
            self._forget(next(iter(self._clients)))

    def _is_forgotten(self, client: _Client, now_ms: int) -> bool:
        return now_ms - client.heard_ms > FORGOTTEN_AFTER * self.settings.push_interval_ms

    def _refused(self, code: ErrorCode, why: str) -> KafkaError:
        """The error, counted."""
        self.pushes_refused += 1
        return KafkaError(code, why)
