"""The dashboard's page in a real Chromium, over given answers of brokers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.chromium import CHROMIUM, page
from tests.support.dashboard_answers import ANSWERS, view_of
from tests.support.still_dashboard import still_dashboard

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def test_picture_of_a_silent_cluster_states_its_age() -> None:
    async def scenario() -> None:
        async with still_dashboard(view_of(), ANSWERS) as still, page(still.url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            assert await tab.run("document.getElementById('age').textContent") == ""
            await tab.run("shownAt -= 60000")
            still.show({"error": "no broker answers"})
            await tab.until("document.getElementById('status').textContent == 'no broker answers'")
            # It is still the last picture that was good, and grows older with each failed poll.
            await tab.until("/ 1 min/.test(document.getElementById('age').textContent)")
            still.show(view_of())
            await tab.until("document.getElementById('age').textContent == ''")

    asyncio.run(scenario())


def _rates(*views: tuple[float, dict[str, Any]]) -> str:
    """A script that draws these (arrival in seconds, traffic), and returns the rates in bytes."""
    steps = "".join(f"addTraffic({json.dumps(traffic)}, {at});" for at, traffic in views)
    start = "points.length = 0; counted = null;"
    return f"(() => {{ {start} {steps} return points.map(p => p.bytes_in); }})()"


def test_throughput_is_by_the_clock_of_the_broker_and_a_repeated_view_is_no_pause() -> None:
    def traffic(ms: int, count: int) -> dict[str, Any]:
        return {"1": {"bytes_in": count, "bytes_out": 0, "records_in": 0, "monotonic_ms": ms}}

    async def scenario() -> None:
        async with still_dashboard({"error": ""}, {}) as still, page(still.url) as tab:
            await tab.until("typeof addTraffic == 'function'")
            # 1,000 bytes a second, which arrive after different times.
            script = _rates(
                (0.0, traffic(0, 0)), (0.1, traffic(2000, 2000)), (5.0, traffic(4000, 4000))
            )
            assert await tab.run(script) == [1000, 1000]
            # A page that is opened, or connects again, gets the last view once more.
            script = _rates((0.0, traffic(0, 0)), (1.0, traffic(0, 0)), (2.0, traffic(2000, 2000)))
            assert await tab.run(script) == [1000]

    asyncio.run(scenario())
