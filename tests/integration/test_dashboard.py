"""The dashboard in a real Chromium: what it shows, what it does not run, and how it is used."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.chromium import CHROMIUM, Page, page
from tests.support.dashboard import dashboard
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.api.world import batch_of

SCRIPT = b'{"name": "<script>document.title = 1</script>"}'
IMAGE = b'<img src=x onerror="document.title = 1">'


@pytest.fixture
def orders_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        with BlockingClient(running.bootstrap) as client:
            client.create_topics([NewTopic("orders", partitions=2)])
            client.partition_count("orders")
            client.produce({TopicPartition("orders", 0): bytearray(batch_of(SCRIPT, IMAGE))})
        yield running


@pytest.fixture
def url(orders_broker: BrokerProcess) -> Iterator[str]:
    with dashboard(orders_broker) as there:
        yield there


def test_message_browser_answers_by_offset_by_key_and_in_sentences(url: str) -> None:
    def records(query: str) -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(f"{url}/api/records?{query}", timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    status, found = records("topic=orders&partition=0&offset=1")
    assert (status, found["start"], found["end"], found["next"]) == (200, 0, 2, 2)
    assert [each["value"] for each in found["records"]] == [IMAGE.decode()]  # type: ignore[attr-defined]
    assert records("topic=orders&partition=0&key=nobody")[1]["records"] == []
    assert records("topic=missing")[0] == 400
    assert records("topic=orders&offset=x") == (400, {"error": "offset=x: expected a number"})


def test_a_broker_that_stalls_freezes_the_picture_only_as_long_as_it_stalls(
    orders_broker: BrokerProcess, url: str
) -> None:
    """The pause was a hundred times what the answers took: up to fifteen minutes."""
    with urllib.request.urlopen(f"{url}/api/events", timeout=30) as events:

        def next_view() -> dict[str, object]:
            while not (line := events.readline()).startswith(b"data: "):
                pass
            found: dict[str, object] = json.loads(line.removeprefix(b"data: "))
            return found

        assert next_view()["cluster_id"]
        os.kill(orders_broker.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: "error" in next_view(), 20, "the page says that no broker answers")
        finally:
            os.kill(orders_broker.pid, signal.SIGCONT)
        wait_until(lambda: "cluster_id" in next_view(), 20, "the picture is back")


def test_name_that_somebody_points_here_reads_nothing(url: str) -> None:
    request = urllib.request.Request(f"{url}/api/events", headers={"Host": "evil.example"})

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)

    assert refused.value.code == 403


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_lives_runs_no_script_of_a_record_and_is_used_by_keyboard(
    orders_broker: BrokerProcess, url: str
) -> None:
    async def scenario() -> None:
        async with page(url) as tab:
            await tab.until("document.querySelectorAll('#chain circle').length > 3")
            await _messages_are_text(tab)
            await _keyboard_opens_a_topic(tab)
            await _dead_branch_is_drawn(tab)
            await _nothing_is_wider_than_a_telephone(tab)
            with BlockingClient(orders_broker.bootstrap) as client:
                client.create_topics([NewTopic("newcomer", partitions=1)])
            await tab.until("document.getElementById('topics').textContent.includes('newcomer')")
            assert tab.said == []

    asyncio.run(scenario())


async def _messages_are_text(tab: Page) -> None:
    await tab.run("document.getElementById('browse').elements.topic.value = 'orders'")
    await tab.run("document.querySelector('#browse button').click()")
    await tab.until("document.querySelectorAll('#records tbody tr').length == 2")

    assert await tab.run("document.querySelectorAll('#records script, #records img').length") == 0
    shown = await tab.run("document.getElementById('records').textContent")
    assert "<script>document.title = 1</script>" in shown
    assert IMAGE.decode() in shown
    # Put into the page as markup it would still not run: the policy forbids it.
    await tab.run(
        "document.body.insertAdjacentHTML('beforeend', '<p onclick=\"document.title=1\" id=x>')"
    )
    await tab.run("document.getElementById('x').click()")
    assert await tab.run("document.title") == "Josefine"
    assert any("Content Security Policy" in each for each in tab.said)
    tab.said.clear()


async def _keyboard_opens_a_topic(tab: Page) -> None:
    await tab.run("document.getElementById('filter').focus()")
    await tab.key("Tab", 9)
    await tab.until(
        "document.activeElement.className === 'scroll' || document.activeElement.dataset.key"
    )
    if not await tab.run("document.activeElement.dataset.key || ''"):
        await tab.key("Tab", 9)
    assert await tab.run("document.activeElement.dataset.key") == "orders"
    await tab.key("Enter", 13)
    await tab.until("document.querySelectorAll('#topic tbody tr').length == 2")
    assert await tab.run("document.activeElement.id") == "topic"
    unnamed = "[...document.querySelectorAll('table')].filter(t => !t.caption.textContent).length"
    assert await tab.run(unnamed) == 0


async def _dead_branch_is_drawn(tab: Page) -> None:
    nodes = [("1:1", 0, 0, "committed"), ("1:2", 1, 1, "dead"), ("2:2", 1, 0, "open")]
    picture = {
        "nodes": [
            {"id": id_, "column": column, "lane": lane, "state": state, "what": "<b>"}
            for id_, column, lane, state in nodes
        ],
        "edges": [["1:1", "1:2"], ["1:1", "2:2"]], "columns": 2, "lanes": 2,
    }  # fmt: skip
    target = "const box = document.createElement('div'); document.body.append(box);"
    drawn = await tab.run(
        f"(() => {{ {target} drawChain(box, {json.dumps(picture)});"
        " const dead = box.querySelector('rect.dead'), open = box.querySelector('circle.open');"
        " return [dead.y.baseVal.value > open.cy.baseVal.value,"
        " box.querySelectorAll('line.dead').length, box.querySelector('svg').ariaLabel]; })()"
    )
    assert drawn == [True, 1, "3 blocks, 1 of them on dead branches"]


async def _nothing_is_wider_than_a_telephone(tab: Page) -> None:
    for scheme in ("light", "dark"):
        await tab.look(scheme=scheme, width=400, height=800)
        assert await tab.run("document.documentElement.scrollWidth") <= 400
    dark = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(15, 19, 24)"
