"""What `josefine perf` makes of two looks at a broker's metrics."""

from __future__ import annotations

import pytest

from josefine_cli.dev.perf_view import Between, lines_of, samples_of

PAGE = """\
# TYPE josefine_request_seconds histogram
josefine_request_seconds_bucket{{api="Produce",le="0.001"}} {fast}
josefine_request_seconds_bucket{{api="Produce",le="0.01"}} {slow}
josefine_request_seconds_bucket{{api="Produce",le="+Inf"}} {all}
josefine_request_seconds_count{{api="Produce"}} {all}
josefine_request_seconds_sum{{api="Produce"}} 1
# TYPE josefine_request_local_seconds counter
josefine_request_local_seconds_total{{api="Produce"}} {local}
# TYPE josefine_request_waiting_seconds counter
josefine_request_waiting_seconds_total{{api="Produce"}} {waiting}
# TYPE josefine_request_errors counter
josefine_request_errors_total{{api="Produce"}} {errors}
# TYPE josefine_process_cpu_seconds counter
josefine_process_cpu_seconds_total {cpu}
# TYPE josefine_connections gauge
josefine_connections {connections}
"""
BEFORE = {"fast": 7, "slow": 8, "all": 9, "local": 1, "waiting": 1, "errors": 1, "cpu": 3,
          "connections": 5}  # fmt: skip


def between(**grown: float) -> Between:
    """Two seconds; what is not said did not grow."""
    after = {name: value + grown.get(name, 0) for name, value in BEFORE.items()}
    return Between(samples_of(PAGE.format(**BEFORE)), samples_of(PAGE.format(**after)), 2.0)


def test_rates_and_shares_are_of_the_time_between_the_looks() -> None:
    found = between(fast=100, slow=200, all=200, local=0.5, waiting=2, errors=4, cpu=1)

    (api,) = found.apis()
    assert (api.api, api.requests_per_s, api.errors_per_s) == ("Produce", 100, 2)
    assert (api.local_us, api.thread_percent, api.waiting_ms) == (2_500, 25, 10)
    whole = found.whole()
    assert (whole.requests_per_s, whole.cpu_percent, whole.thread_percent) == (100, 50, 25)


@pytest.mark.parametrize(
    ("grown", "p50_ms", "p99_ms"),
    [
        ({"fast": 100, "slow": 100, "all": 100}, 1, 1),
        ({"fast": 50, "slow": 100, "all": 100}, 1, 10),
        ({"fast": 10, "slow": 60, "all": 100}, 10, None),
    ],
)
def test_quantile_is_the_bound_of_its_bucket(
    grown: dict[str, float], p50_ms: float, p99_ms: float | None
) -> None:
    """Of what came between the looks, not of all before."""
    (api,) = between(**grown).apis()

    assert (api.p50_ms, api.p99_ms) == (p50_ms, p99_ms)


def test_api_that_was_not_asked_for_is_left_out() -> None:
    found = between(connections=-2)

    assert found.apis() == []
    assert found.whole().connections == 3
    assert next(lines_of(found.whole())).startswith("0 requests/s, 0.0 MB/s in")


def test_page_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        samples_of("<html>nothing of the kind")
