"""What `josefine bench` makes of its latencies."""

from __future__ import annotations

import pytest

from josefine_cli.base import latencies as latencies_module
from josefine_cli.base.latencies import Latencies


def test_quantiles_are_of_all_samples() -> None:
    latencies = Latencies()
    for ms in range(1_000, 0, -1):
        latencies.add(ms)

    assert latencies.quantiles() == {
        "p50": 501,
        "p95": 951,
        "p99": 991,
        "p99.9": 1_000,
        "max": 1_000,
    }


def test_no_sample_is_zero() -> None:
    assert set(Latencies().quantiles().values()) == {0}


def test_memory_is_bounded_and_quantiles_stay_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latencies_module, "SAMPLES_MAX", 1_000)
    latencies = Latencies()
    for ms in range(50_000):
        latencies.add(ms)

    assert len(latencies._samples_ms) <= 1_000
    assert latencies.quantiles()["p50"] == pytest.approx(25_000, rel=0.1)
    assert latencies.quantiles()["max"] == 49_999
