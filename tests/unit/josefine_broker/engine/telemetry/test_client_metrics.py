"""Clients that push metrics: who may when, and whose numbers are there (KIP-714)."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.telemetry import client_metrics as c
from josefine_broker.engine.telemetry.otlp_metrics import TEXT_MAX
from josefine_broker.records.codecs import Compression
from josefine_broker.records.compression import compress
from tests.unit.josefine_broker.engine.telemetry.test_otlp_metrics import data_of, pb

A, B = UUID(int=1), UUID(int=2)
INTERVAL_MS = 1_000
SETTINGS = c.ClientMetricsSettings(
    prefixes=("org.",), push_interval_ms=INTERVAL_MS, push_bytes_max=2_000
)


def metrics(name: str = "m", value: float = 1.0) -> bytes:
    metric = pb.Metric(name=name)
    metric.gauge.data_points.add(as_double=value)
    return data_of(metric)


class Clients(c.ClientMetrics):
    """With the answer of each request as its error code."""

    def get(self, instance: UUID, now_ms: int) -> ErrorCode:
        return self._code(lambda: self.subscribe(instance, "app", now_ms))

    def put(
        self,
        instance: UUID,
        now_ms: int,
        data: bytes = b"",
        *,
        compression: int = 0,
        subscription: int = SETTINGS.subscription_id,
        ends: bool = False,
    ) -> ErrorCode:
        return self._code(
            lambda: self.push(
                instance, subscription, compression, data, now_ms, is_terminating=ends
            )
        )

    def numbers(self, now_ms: int) -> list[tuple[int, float]]:
        return [(each.int, point.value) for each, _, point in self.series(now_ms)]

    @staticmethod
    def _code(do: object) -> ErrorCode:
        try:
            do()  # type: ignore[operator]
        except KafkaError as error:
            return error.code
        return ErrorCode.none


@pytest.fixture
def clients() -> Clients:
    return Clients(SETTINGS)


def test_the_last_numbers_of_each_client_are_there(clients: Clients) -> None:
    assert clients.get(A, 0) is clients.get(B, 0) is ErrorCode.none
    assert clients.put(A, 1, metrics(value=1)) is ErrorCode.none
    assert clients.put(B, 2, metrics(value=2)) is ErrorCode.none
    assert clients.put(A, 1_001, metrics(value=3)) is ErrorCode.none

    assert sorted(clients.numbers(1_001)) == [(1, 3.0), (2, 2.0)]
    assert (clients.pushes, clients.pushes_refused) == (3, 0)


def test_a_client_pushes_at_its_interval_and_not_before(clients: Clients) -> None:
    clients.get(A, 0)
    assert clients.put(A, 10, metrics(value=1)) is ErrorCode.none  # the first one at any time
    assert clients.put(A, 1_009, metrics(value=2)) is ErrorCode.throttling_quota_exceeded
    assert clients.numbers(1_009) == [(1, 1.0)]
    assert clients.put(A, 1_010, metrics(value=3)) is ErrorCode.none


def test_a_client_that_ends_may_push_early_once(clients: Clients) -> None:
    clients.get(A, 0)
    clients.put(A, 1)
    assert clients.put(A, 2, metrics(value=9), ends=True) is ErrorCode.none
    assert clients.put(A, 5_000, metrics(value=10)) is ErrorCode.invalid_request
    assert clients.put(A, 5_000, metrics(value=10), ends=True) is ErrorCode.invalid_request
    assert clients.numbers(2) == [(1, 9.0)]


def test_a_client_asks_again_after_a_push_an_interval_or_an_error(clients: Clients) -> None:
    assert clients.get(A, 0) is ErrorCode.none
    assert clients.get(A, 999) is ErrorCode.throttling_quota_exceeded
    assert clients.get(A, 1_000) is ErrorCode.none
    assert clients.put(A, 1_001) is ErrorCode.none
    assert clients.get(A, 1_002) is ErrorCode.none
    assert clients.put(A, 1_003, subscription=7) is ErrorCode.unknown_subscription_id
    assert clients.get(A, 1_004) is ErrorCode.none
    assert clients.put(A, 1_005, compression=9) is ErrorCode.unsupported_compression_type
    assert clients.get(A, 1_006) is ErrorCode.none
    assert clients.get(A, 1_007) is ErrorCode.throttling_quota_exceeded


def test_a_client_that_never_asked_asks_first(clients: Clients) -> None:
    assert clients.put(A, 0, metrics()) is ErrorCode.unknown_subscription_id
    assert clients.get(A, 1) is ErrorCode.none
    assert clients.put(A, 2, metrics()) is ErrorCode.none


@pytest.mark.parametrize("codec", [0, *c.COMPRESSIONS])
def test_each_compression_that_is_offered_is_read(clients: Clients, codec: int) -> None:
    clients.get(A, 0)
    data = bytes(compress(codec, metrics(value=4)))
    assert clients.put(A, 1, data, compression=codec) is ErrorCode.none
    assert clients.numbers(1) == [(1, 4.0)]


@pytest.mark.parametrize(
    ("data", "compression", "code"),
    [
        (b"x" * 2_001, 0, ErrorCode.telemetry_too_large),
        (bytes(compress(Compression.ZSTD, b"\0" * 30_000)), 4, ErrorCode.telemetry_too_large),
        (b"not zstd", 4, ErrorCode.invalid_record),
        (b"\xff", 0, ErrorCode.invalid_record),
    ],
)
def test_what_cannot_be_read_is_refused_and_counted(
    clients: Clients, data: bytes, compression: int, code: ErrorCode
) -> None:
    clients.get(A, 0)
    assert clients.put(A, 1, data, compression=compression) is code
    assert clients.numbers(1) == []
    assert clients.pushes_refused == 1


def test_silent_clients_are_forgotten_and_the_oldest_of_too_many() -> None:
    clients = Clients(SETTINGS)
    clients.get(A, 0)
    clients.put(A, 0, metrics())
    assert clients.numbers(3 * INTERVAL_MS) == [(1, 1.0)]
    assert clients.numbers(3 * INTERVAL_MS + 1) == []

    for number in range(c.CLIENTS_MAX + 1):
        clients.get(UUID(int=100 + number), 10_000)
        clients.put(UUID(int=100 + number), 10_000, metrics())
    there = {each for each, _ in clients.numbers(10_000)}
    assert (len(there), 100 in there, 101 in there) == (c.CLIENTS_MAX, False, True)


def test_other_settings_are_another_subscription() -> None:
    others = [
        SETTINGS,
        c.ClientMetricsSettings(prefixes=("*",), push_interval_ms=INTERVAL_MS),
        c.ClientMetricsSettings(prefixes=("org.",), push_interval_ms=2_000),
    ]
    assert len({each.subscription_id for each in others}) == 3
    assert all(-(2**31) <= each.subscription_id < 2**31 for each in others)
    assert others[1].requested == ("",)


def test_without_a_subscription_nobody_may_ask_or_push() -> None:
    clients = Clients(c.ClientMetricsSettings())
    number = clients.settings.subscription_id
    assert clients.get(A, 0) is ErrorCode.unsupported_version
    assert clients.put(A, 1, metrics(), subscription=number) is ErrorCode.unsupported_version


def test_texts_of_all_clients_are_bounded(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that was heard of least recently gives way; forgotten ones free their part."""
    monkeypatch.setattr(c, "CHARACTERS_MAX", 2 * (10 + c.POINT_CHARACTERS))
    for number in (1, 2, 1, 3, 3):
        clients.get(UUID(int=number), 0)
        clients.put(UUID(int=number), number * 10_000, metrics("n" * 10))
    assert [each for each, _ in clients.numbers(0)] == [1, 3]


def test_client_ids_are_cut(clients: Clients) -> None:
    """They are labels of each series."""
    clients.subscribe(A, "x" * 30_000, 0)
    clients.put(A, 1, metrics())
    ((_, client_id, _),) = clients.series(1)
    assert len(client_id) == TEXT_MAX
