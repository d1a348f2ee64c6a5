"""The dashboard's page in a real Chromium, over given answers of brokers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.chromium import CHROMIUM, Page, page
from tests.support.dashboard_answers import ANSWERS, PAGES, view_of
from tests.support.still_dashboard import still_dashboard

CHECKS = (Path(__file__).parents[1] / "support" / "page_checks.js").read_text().rstrip()
PICTURES = Path(__file__).parent / "dashboard_pictures"
NEW_PICTURES = "JOSEFINE_NEW_PICTURES"
"""Set it to 1 to write the pictures again, after a change that is meant."""
DIFFERENT_MAX = 0.075
"""Share of a picture's blocks that may differ: other fonts, but no other layout."""
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"></td></script>"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def test_picture_of_a_silent_cluster_states_its_age() -> None:
    async def scenario() -> None:
        async with still_dashboard(view_of(), {**ANSWERS}) as still, page(still.url) as tab:
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


def opened(work: Callable[[Page], Awaitable[None]], view: Any = None, answers: Any = None) -> None:
    """Run `work` on the open page over these answers."""

    async def scenario() -> None:
        given = (view or view_of(), answers or ANSWERS)
        async with still_dashboard(*given) as still, page(still.url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            await tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
            await work(tab)

    asyncio.run(scenario())


async def go(tab: Page, name: str, address: str) -> None:
    """Open a page and wait for what it asks for."""
    await tab.run(f"location.hash = {json.dumps(address)}")
    await tab.until(f"page.name === {json.dumps(name)}")
    await tab.until("!/asking …|reading …/.test(document.querySelector('main').innerText)")
    if name not in ("overview", "topic", "group", "pipelines"):
        await tab.until("document.querySelectorAll('.page:not([hidden]) tbody tr').length > 0")
    if name == "pipelines":
        await tab.until("document.querySelectorAll('.graph').length > 0")
    await tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_every_page_fits_a_telephone_and_is_named_for_screen_readers() -> None:
    async def work(tab: Page) -> None:
        assert await _wrong(tab, "structure", width=400) == {}
        assert await _wrong(tab, "structure", width=1280) == {}
        assert tab.said == []

    opened(work)


def test_every_text_has_a_contrast_of_four_and_a_half() -> None:
    async def work(tab: Page) -> None:
        assert await _wrong(tab, "contrast", scheme="light") == {}
        assert await _wrong(tab, "contrast", scheme="dark") == {}

    opened(work)


async def _wrong(tab: Page, check: str, *, scheme: str = "light", width: int = 1280) -> Any:
    """Page → what a check of page_checks.js finds there."""
    await tab.look(scheme=scheme, width=width, height=800)
    wrong: dict[str, Any] = {}
    for name, address in PAGES.items():
        await go(tab, name, address)
        if found := await tab.run(f"{CHECKS}.{check}()"):
            wrong[name] = found
    return wrong


def hostile(value: Any) -> Any:
    """The same answer with markup at the end of every text."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list):
        return [hostile(each) for each in value]
    if isinstance(value, dict):
        return {key: hostile(each) for key, each in value.items()}
    return value


def test_names_and_records_are_text_on_every_page_whatever_is_in_them() -> None:
    async def work(tab: Page) -> None:
        name = quote(HOSTILE, safe="")
        addresses = {
            "topic": f"#/topics/orders{name}", "group": f"#/groups/billing{name}",
            "messages": f"#/messages?topic=orders{name}",
        }  # fmt: skip
        for each, address in {**PAGES, **addresses}.items():
            await go(tab, each, address)
            made = "document.querySelectorAll('main img, main script, main style').length"
            assert await tab.run(made) == 0, each
            assert await tab.run("document.title") != "pwned", each
            shown = await tab.run("document.querySelector('.page:not([hidden])').textContent")
            assert HOSTILE in shown, each
        # A link leads to the group of that name, and not elsewhere.
        await go(tab, "groups", "#/groups")
        await tab.run("document.querySelector('#groups tbody a').click()")
        await tab.until("page.name === 'group'")
        assert await tab.run("page.argument") == "billing" + HOSTILE

    opened(work, hostile(view_of()), hostile(ANSWERS))


def test_an_address_shows_the_same_records_again() -> None:
    async def scenario() -> None:
        async with still_dashboard(view_of(), {**ANSWERS}) as still, page(still.url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            await go(tab, "messages", "#/messages?topic=orders")
            await tab.run("document.querySelector('#records tbody td:nth-child(3) a').click()")
            await tab.until("page.query.get('offset') !== null")
            assert await tab.run("document.getElementById('browse').elements.partition.value")
            await tab.run("location.hash = '#/messages?topic=orders&search=a%26b&limit=5'")
            await tab.until("page.query.get('search') === 'a&b'")
            assert await tab.run("document.getElementById('browse').elements.search.value") == "a&b"
            await tab.until("!document.getElementById('next').hidden")
            await tab.run("document.getElementById('next').click()")
            await tab.until("page.query.get('at') === '0:48,1:48,2:48'")
            await tab.until("!document.getElementById('next').hidden")
            records = [each for each in still.asked if each.startswith("/api/records")]
            assert records[-1].endswith("search=a%26b&limit=5&at=0%3A48%2C1%3A48%2C2%3A48")

    asyncio.run(scenario())


def test_table_that_did_not_change_stays_with_its_selection_and_focus() -> None:
    async def scenario() -> None:
        async with still_dashboard(view_of(), {**ANSWERS}) as still, page(still.url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            await go(tab, "groups", "#/groups")
            await tab.run("getSelection().selectAllChildren(document.querySelector('#groups td'))")
            await tab.run("view = null")
            still.show(view_of())
            await tab.until("view !== null")
            assert await tab.run("String(getSelection())") == "billing"
            await tab.run("document.querySelector('#groups td a').focus()")
            still.show(view_of(groups=view_of()["groups"][:1], term=4))
            await tab.until("view.term === 4")
            assert await tab.run("document.activeElement.textContent") == "billing"

    asyncio.run(scenario())


def test_following_asks_from_where_it_ended_until_it_is_stopped() -> None:
    async def scenario() -> None:
        async with still_dashboard(view_of(), {**ANSWERS}) as still, page(still.url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            await go(tab, "messages", "#/messages?topic=orders")
            await tab.run("asking.everyMs = 100")
            await tab.run("document.getElementById('follow').click()")
            await tab.until("document.querySelectorAll('#records tbody tr').length >= 16")
            assert "at=0%3A48%2C1%3A48%2C2%3A48" in still.asked[-1]
            pressed = "document.getElementById('follow').getAttribute('aria-pressed')"
            assert await tab.run(pressed) == "true"
            said = "document.getElementById('range').textContent"
            await tab.run("document.querySelector('#records details').open = true")
            count = "document.querySelectorAll('#records tbody tr').length"
            await tab.until(f"{said}.includes('waiting while a value is open')")
            before = await tab.run(count)
            asked = len(still.asked)
            while len(still.asked) < asked + 2:
                await tab.until("true")
            assert await tab.run(count) == before
            await tab.run("document.querySelector('#records details').open = false")
            await tab.until(f"{count} > {before}")
            parts = {each: {"start": 0, "end": 9048, "next": 48, "first": 40} for each in "012"}
            still.answers["/api/records"] = ANSWERS["/api/records"] | {"partitions": parts}
            await tab.until(f"{said}.includes('offsets came too fast to be shown')")
            await tab.run("document.getElementById('follow').click()")
            assert await tab.run(pressed) == "false"
            assert await tab.run("following") is False

    asyncio.run(scenario())


DRAWN = (
    ("overview", "light", 1280), ("overview", "dark", 400), ("group", "dark", 1280),
    ("messages", "light", 400), ("pipelines", "light", 1280), ("topic", "dark", 400),
)  # fmt: skip


def test_pages_look_as_their_pictures(tmp_path: Path) -> None:
    async def work(tab: Page) -> None:
        for name, scheme, width in DRAWN:
            await tab.look(scheme=scheme, width=width, height=800, scale=0.5)
            await go(tab, name, PAGES[name])
            kept, drawn = PICTURES / f"{name}-{width}-{scheme}.png", tmp_path / f"{name}.png"
            await tab.picture(drawn, beyond=False)
            if os.environ.get(NEW_PICTURES):
                PICTURES.mkdir(exist_ok=True)
                kept.write_bytes(drawn.read_bytes())
            share = await tab.difference(drawn.read_bytes(), kept.read_bytes())
            assert share <= DIFFERENT_MAX, f"{share:.1%} of {kept.name} differs from {drawn}"

    opened(work)
