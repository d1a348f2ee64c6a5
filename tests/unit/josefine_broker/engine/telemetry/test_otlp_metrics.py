"""Pushed metrics are read as OpenTelemetry's own library writes them; others are refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.telemetry.otlp_metrics import (
    FIELDS_MAX,
    POINTS_MAX,
    TEXT_MAX,
    Point,
    points_of,
)


def data_of(*metrics: pb.Metric) -> bytes:
    scope = pb.ScopeMetrics(metrics=metrics)
    scope.scope.name = "a scope"
    resource = pb.ResourceMetrics(scope_metrics=[scope], schema_url="s")
    resource.resource.attributes.append(attribute("service.name", AnyValue(string_value="x")))
    return bytes(pb.MetricsData(resource_metrics=[resource]).SerializeToString())


def attribute(key: str, value: AnyValue) -> KeyValue:
    return KeyValue(key=key, value=value)


ATTRIBUTES = [
    attribute("topic", AnyValue(string_value="orders")),
    attribute("partition", AnyValue(int_value=-1)),
    attribute("idle", AnyValue(bool_value=True)),
    attribute("share", AnyValue(double_value=0.5)),
    attribute("list", AnyValue()),
]


def test_each_kind_of_metric_has_its_numbers() -> None:
    gauge = pb.Metric(name="a.gauge", description="d", unit="1")
    gauge.gauge.data_points.add(as_double=1.5, attributes=ATTRIBUTES, time_unix_nano=1)
    gauge.gauge.data_points.add(time_unix_nano=1)  # without a value
    total = pb.Metric(name="a.total")
    total.sum.is_monotonic = True
    total.sum.data_points.add(as_int=-7, start_time_unix_nano=1)
    spread = pb.Metric(name="a.spread")
    spread.histogram.data_points.add(
        count=3, sum=4.5, bucket_counts=[1, 2], explicit_bounds=[1.0], attributes=ATTRIBUTES[:1]
    )
    wide = pb.Metric(name="a.wide")
    wide.exponential_histogram.data_points.add(count=2, attributes=ATTRIBUTES[:1], scale=1)
    summary = pb.Metric(name="a.summary")
    summary.summary.data_points.add(count=1, sum=2.0, attributes=ATTRIBUTES[1:2])

    assert points_of(data_of(gauge, total, spread, wide, summary)) == [
        Point("a.gauge", "idle=true,list=,partition=-1,share=0.5,topic=orders", 1.5),
        Point("a.total", "", -7),
        Point("a.spread.count", "topic=orders", 3),
        Point("a.spread.sum", "topic=orders", 4.5),
        Point("a.wide.count", "topic=orders", 2),
        Point("a.summary.count", "partition=-1", 1),
        Point("a.summary.sum", "partition=-1", 2.0),
    ]


@given(
    st.lists(
        st.tuples(
            st.text(max_size=20), st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1)
        ),
        max_size=5,
    )
)
def test_numbers_are_those_that_were_written(values: list[tuple[str, float]]) -> None:
    metrics = []
    for name, value in values:
        metric = pb.Metric(name=name)
        how = {"as_int": value} if isinstance(value, int) else {"as_double": value}
        metric.gauge.data_points.add(**how)
        metrics.append(metric)

    assert points_of(data_of(*metrics)) == [Point(name, "", value) for name, value in values]


@given(st.binary(max_size=200))
def test_any_bytes_are_numbers_or_refused(data: bytes) -> None:
    try:
        points = points_of(data)
    except CorruptData:
        return
    assert all(isinstance(each.value, int | float) for each in points)


def test_what_is_cut_anywhere_is_refused() -> None:
    metric = pb.Metric(name="m")
    metric.gauge.data_points.add(as_double=math.pi, attributes=ATTRIBUTES)
    whole = data_of(metric)

    for end in range(1, len(whole)):
        with pytest.raises(CorruptData):
            points_of(whole[:end])


def test_texts_and_points_are_bounded() -> None:
    long = pb.Metric(name="n" * 1_000)
    long.gauge.data_points.add(
        as_int=1, attributes=[attribute("k", AnyValue(string_value="v" * 1_000))]
    )
    (point,) = points_of(data_of(long))
    assert (len(point.name), len(point.of)) == (TEXT_MAX, TEXT_MAX)

    many = pb.Metric(name="m")
    for _ in range(POINTS_MAX + 1):
        many.gauge.data_points.add(as_int=1)
    with pytest.raises(CorruptData, match="more than 2000 data points"):
        points_of(data_of(many))


def test_fields_that_are_no_points_are_bounded_too() -> None:
    """Points without a value, of which a compressed push has millions."""
    empty = pb.Metric(name="m")
    empty.gauge.data_points.extend([pb.NumberDataPoint()] * FIELDS_MAX)
    with pytest.raises(CorruptData, match="more than 100000 fields"):
        points_of(data_of(empty))


def test_bounds_have_room_for_as_many_points_as_are_allowed() -> None:
    metrics = []
    for number in range(POINTS_MAX):
        metric = pb.Metric(name=f"m{number}", description="d", unit="1")
        metric.sum.data_points.add(as_int=number, attributes=ATTRIBUTES, time_unix_nano=1)
        metrics.append(metric)
    assert len(points_of(data_of(*metrics))) == POINTS_MAX
