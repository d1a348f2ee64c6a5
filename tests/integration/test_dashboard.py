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
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from pipelines.config.validate import read_pipeline
from pipelines.sources.josefine import first_record_ms
from tests.integration.test_dashboard_changes import PIPELINE
from tests.support.broker import BrokerProcess
from tests.support.chromium import CHROMIUM, Page, page
from tests.support.dashboard import dashboard
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.api.world import NOW_MS, batch_of

SCRIPT = b'{"name": "<script>document.title = 1</script>"}'
IMAGE = b'<img src=x onerror="document.title = 1">'


@pytest.fixture(scope="module")
def orders_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all tests: each writes to topics and groups of its own."""
    with BrokerProcess(tmp_path_factory.mktemp("dashboard")) as running:
        with BlockingClient(running.bootstrap) as client:
            client.create_topics(
                [NewTopic(name, partitions=2) for name in ("orders", "written", "zebras")]
            )
            for name in ("orders", "written", "zebras"):
                client.partition_count(name)
            client.produce({TopicPartition("orders", 0): bytearray(batch_of(SCRIPT, IMAGE))})
        yield running


@pytest.fixture(scope="module")
def url(orders_broker: BrokerProcess) -> Iterator[str]:
    with dashboard(orders_broker) as there:
        yield there


def test_message_browser_answers_by_offset_by_key_and_in_sentences(url: str) -> None:
    def records(query: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"{url}/api/records?{query}", timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def values(found: dict[str, Any]) -> list[str]:
        return [each["value"] for each in found["records"]]

    status, found = records("topic=orders&partition=0&offset=1")
    assert status == 200
    assert found["partitions"] == {"0": {"start": 0, "end": 2, "next": 2, "first": 1}}
    assert values(found) == [IMAGE.decode()]
    _, newest = records("topic=orders&limit=1")
    assert values(newest) == [IMAGE.decode()]
    assert sorted(newest["partitions"]) == ["0", "1"]
    assert values(records("topic=orders&until=0:1,1:0")[1]) == [SCRIPT.decode()]
    assert values(records("topic=orders&at=0:1")[1]) == [IMAGE.decode()]
    assert values(records("topic=orders&search=onerror")[1]) == [IMAGE.decode()]
    assert records("topic=orders&partition=0&key=nobody")[1]["records"] == []
    assert records("topic=orders&partition=2")[1]["error"] == "partition=2: orders has 2, from 0 on"
    assert records("topic=order")[1]["error"].startswith("topic 'order' does not exist: did you")
    assert records("topic=orders&offset=x") == (400, {"error": "offset=x: expected a number"})


def test_topic_has_its_configuration_consumers_and_producers(
    orders_broker: BrokerProcess, url: str
) -> None:
    with BlockingClient(orders_broker.bootstrap) as client:
        client.commit_offsets("writers", {TopicPartition("written", 1): 0})
        client.commit_offsets("others", {TopicPartition("zebras", 1): 0})
        producer = BlockingProducer(client)
        producer.send("written", b"k", b"v", (), 1)
        producer.flush()

    found = get(f"{url}/api/topic/more?name=written")

    assert found["consumers"]["rows"] == [
        {"group": "writers", "state": "Empty", "partitions": 1, "lag": 1}
    ]
    (row,) = found["producers"]["rows"]
    assert (row["partition"], row["last_sequence"], row["in_transaction"]) == (1, 0, False)
    assert {"retention.ms", "cleanup.policy"} <= {each["name"] for each in found["configs"]}


def test_group_has_partitions_and_its_lag_over_time(orders_broker: BrokerProcess, url: str) -> None:
    with BlockingClient(orders_broker.bootstrap) as client:
        client.commit_offsets("readers", {TopicPartition("orders", 0): 1})

    found = get(f"{url}/api/group?name=readers")

    assert (found["state"], found["lag"], found["members"]) == ("Empty", 1, [])
    assert [(row["partition"], row["committed"], row["end"]) for row in found["partitions"]] == [
        (0, 1, 2)
    ]
    assert [lag for _, lag in found["history"]] == [1]
    assert get(f"{url}/api/group?name=reader")["error"].endswith("did you mean 'readers'?")


def test_age_of_a_lag_is_that_of_the_first_unread_record(
    orders_broker: BrokerProcess, tmp_path: Path
) -> None:
    tp = TopicPartition("zebras", 0)
    with BlockingClient(orders_broker.bootstrap) as client:
        client.produce({tp: bytearray(batch_of(b"a", b"b"))})
        client.produce({tp: bytearray(batch_of(b"late", timestamp_ms=NOW_MS + 5_000))})
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(folder=tmp_path, bootstrap=orders_broker.bootstrap))
    source = read_pipeline(file, {}).sources["orders"]

    assert first_record_ms(source, {tp: 0, TopicPartition("zebras", 1): 0}) == NOW_MS
    assert first_record_ms(source, {tp: 2}) == NOW_MS + 5_000
    assert first_record_ms(source, {tp: 3}) is None
    assert first_record_ms(source, {}) is None


def test_access_that_a_cluster_does_not_have_is_a_sentence_and_hides_nothing_else(url: str) -> None:
    found = get(f"{url}/api/access")

    assert "acls.enabled" in found["acls"]["error"]
    assert found["users"] == []
    assert found["quotas"] == []


def get(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            found = json.load(error)
    return found


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

    with refused.value as error:
        assert error.code == 403


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_lives_runs_no_script_of_a_record_and_is_used_by_keyboard(
    orders_broker: BrokerProcess, url: str
) -> None:
    async def scenario() -> None:
        async with page(url) as tab:
            await tab.until("typeof view == 'object' && view !== null")
            await tab.run("location.hash = '#/chain'")
            await tab.until("document.querySelectorAll('#chain circle').length > 3")
            await _dead_branch_is_drawn(tab)
            await _keyboard_opens_a_topic(tab)
            await _messages_are_text(tab)
            with BlockingClient(orders_broker.bootstrap) as client:
                client.create_topics([NewTopic("newcomer", partitions=1)])
            await tab.run("location.hash = '#/topics'")
            await tab.until("document.getElementById('topics').textContent.includes('newcomer')")
            assert tab.said == []

    asyncio.run(scenario())


async def _messages_are_text(tab: Page) -> None:
    await tab.run("location.hash = '#/messages?topic=orders&offset=0'")
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
    assert "1" not in await tab.run("document.title")
    assert any("Content Security Policy" in each for each in tab.said)
    tab.said.clear()


async def _keyboard_opens_a_topic(tab: Page) -> None:
    await tab.run("location.hash = '#/topics'")
    await tab.until("document.querySelectorAll('#topics tbody tr').length > 0")
    await tab.run("document.getElementById('internal').focus()")
    async with asyncio.timeout(30):
        while not await tab.run("(document.activeElement.dataset.key || '').startsWith('#/')"):
            await tab.key("Tab", 9)
    assert await tab.run("document.activeElement.textContent") == "orders"
    await tab.key("Enter", 13)
    await tab.until("document.querySelectorAll('#partitions tbody tr').length == 2")
    assert await tab.run("document.activeElement.id") == "topic-title"
    assert await tab.run("document.title") == "orders – Josefine"


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
