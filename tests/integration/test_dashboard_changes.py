"""The dashboard started with --allow-changes and --pipeline: who may change what, and the page."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.chromium import CHROMIUM, Page, page
from tests.support.dashboard import dashboard
from tests.support.fixtures import broker_fixture
from tests.unit.josefine_broker.api.world import batch_of

PIPELINE = """\
version: 1
name: orders_to_lake
trigger: {{ available_now: true }}
spark:
  checkpoint: {folder}/ck
sources:
  orders:
    type: josefine
    bootstrap: {bootstrap}
    topics: [orders]
sinks:
  lake:
    inputs: [orders]
    type: delta
    mode: append
    path: {folder}/lake
"""


class Shown(NamedTuple):
    """A dashboard that may change things, and what it shows."""

    broker: BrokerProcess
    address: str

    @property
    def token(self) -> str:
        return self.address.rpartition("#changes=")[2]

    def post(self, path: str, body: Any, token: str | None = None) -> tuple[int, Any]:
        """Status and JSON."""
        headers = {"Content-Type": "application/json"}
        headers["Authorization"] = f"Bearer {self.token if token is None else token}"
        url = self.address.partition("#")[0].rstrip("/") + path
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            request = urllib.request.Request(url, data, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def topics(self) -> set[str]:
        with BlockingClient(self.broker.bootstrap) as client:
            return {name for name in client.metadata().topics if not name.startswith("__")}


broker = broker_fixture(NewTopic("orders", partitions=2))


@pytest.fixture(scope="module")
def shown(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("pipeline")
    file = folder / "orders.yaml"
    file.write_text(PIPELINE.format(folder=folder, bootstrap=broker.bootstrap))
    with dashboard(broker, "--allow-changes", "--pipeline", str(file)) as address:
        yield Shown(broker, address)


def test_topics_and_records_come_and_go(shown: Shown) -> None:
    status, told = shown.post("/api/topics/create", {"name": "made", "partitions": "3"})
    assert (status, told) == (200, {"said": "created made with 3 partitions"})
    for number in range(2):
        body = {"topic": "made", "partition": "1", "key": "é", "value": "x"}
        said = f"written to made, partition 1, offset {number}"
        assert shown.post("/api/produce", body) == (200, {"said": said})
    address = shown.address.partition("#")[0].rstrip("/")
    with urllib.request.urlopen(f"{address}/api/records?topic=made&partition=1") as answer:
        found = json.load(answer)["records"]
    assert [(each["key"], each["value"]) for each in found] == [("é", "x")] * 2

    assert shown.post("/api/topics/delete", {"name": "made", "typed": "mad"}) == (
        400,
        {"error": "type the topic's name, made, to delete it"},
    )
    assert "made" in shown.topics()
    assert shown.post("/api/topics/delete", {"name": "made", "typed": "made"})[0] == 200
    assert "made" not in shown.topics()


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/api/topics/create", {"name": ""}, "name: expected a text"),
        ("/api/topics/create", {"name": "x", "partitions": "none"}, "partitions=none: expected"),
        ("/api/topics/create", {"name": "orders"}, "orders"),
        ("/api/topics/delete", {"name": "gone", "typed": "gone"}, "gone"),
        ("/api/produce", {"topic": "gone", "value": "x"}, "gone"),
        ("/api/produce", {"topic": "orders", "value": "x", "partition": 2}, "orders has 2"),
        ("/api/produce", {"topic": "orders", "value": 1}, "expected texts"),
        ("/api/groups/plan", {"group": "readers"}, "to: expected a text"),
        ("/api/groups/plan", {"group": "readers", "to": "noon"}, "to 'noon' is not valid"),
        ("/api/groups/plan", {"group": "nobody", "to": "latest"}, "has committed nothing"),
        ("/api/produce", [], "expected a JSON object"),
        ("/api/produce", b"{", "the body is not valid JSON"),
    ],
)
def test_a_mistake_is_one_sentence(shown: Shown, path: str, body: Any, said: str) -> None:
    status, told = shown.post(path, body)

    assert status == 400
    assert said in told["error"]


def test_offsets_move_as_the_dry_run_showed_and_only_then(shown: Shown) -> None:
    tp = TopicPartition("orders", 0)
    asked = {"group": "readers", "to": "latest", "topic": "orders:0"}
    with BlockingClient(shown.broker.bootstrap) as client:
        client.produce({tp: bytearray(batch_of(b"a", b"b", b"c"))})
        client.commit_offsets("readers", {tp: 1})

        status, found = shown.post("/api/groups/plan", asked)
        row = {"topic": "orders", "partition": 0, "committed": 1, "to": 3, "lag": 0, "note": ""}
        assert (status, found["plan"]) == (200, [row])
        assert client.committed_offsets("readers", [tp])[tp] == 1

        # `latest` is further now: what was shown is what is committed.
        client.produce({tp: bytearray(batch_of(b"d"))})
        assert shown.post("/api/groups/reset", asked | {"plan": [row]}) == (
            200,
            {"said": "moved 1 offset of readers"},
        )
        assert client.committed_offsets("readers", [tp])[tp] == 3

        stale = shown.post("/api/groups/reset", asked | {"plan": [row]})
        other = shown.post("/api/groups/reset", asked | {"plan": []})
        none = shown.post("/api/groups/reset", asked)
        assert client.committed_offsets("readers", [tp])[tp] == 3
    assert stale[0] == other[0] == none[0] == 400
    assert "make a new one" in stale[1]["error"]


@pytest.mark.parametrize("path", ["/api/groups/plan", "/api/groups/reset", "/api/topics/create"])
def test_every_change_needs_the_token_and_json(shown: Shown, path: str) -> None:
    address = shown.address.partition("#")[0].rstrip("/")
    request = urllib.request.Request(
        address + path, b"{}", {"Authorization": f"Bearer {shown.token}"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)

    # A form of another page can send a POST, and neither the header nor this type.
    with refused.value as error:
        assert error.code == 415
    assert shown.post(path, {}, "guessed")[0] == 403


@pytest.mark.parametrize("token", ["", "x", "é"])
def test_nothing_is_changed_without_the_token(shown: Shown, token: str) -> None:
    refused = shown.post("/api/topics/delete", {"name": "orders", "typed": "orders"}, token)

    assert refused[0] == 403
    assert "orders" in shown.topics()


def test_a_dashboard_only_shows_unless_it_is_told_otherwise(broker: BrokerProcess) -> None:
    with dashboard(broker) as address:
        assert "#" not in address
        status, told = Shown(broker, address).post("/api/topics/create", {"name": "made"}, "")
        with urllib.request.urlopen(f"{address}/api/pipelines", timeout=60) as answer:
            assert json.load(answer) is None

    assert (status, "--allow-changes" in told["error"]) == (403, True)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_changes_draws_what_flows_and_shows_pipelines(shown: Shown) -> None:
    async def scenario() -> None:
        async with page(shown.address) as tab:
            await tab.until("document.getElementById('changes-link')?.hidden === false")
            assert shown.token not in await tab.run("location.href")
            await _fill(tab, "create", {"name": "typed-in", "partitions": "1"})
            await tab.until("document.querySelector('#create [role=status]').className == 'good'")
            await tab.until("!!document.querySelector('#traffic svg')")
            await _fill(tab, "produce", {"topic": "typed-in", "value": "x" * 1000})
            await tab.until("/in [^0]/.test(document.getElementById('traffic-said').textContent)")
            await tab.run("location.hash = '#/pipelines'")
            await tab.until("document.querySelectorAll('#pipelines .graph rect').length == 2")
            told = await tab.run("document.querySelector('#pipelines tbody').textContent")
            assert told.startswith("lake")
            assert "would continue" in told
            await _offsets_are_moved_after_a_dry_run(tab, shown)
            await _fill(tab, "delete", {"name": "typed-in", "typed": "no"})
            await tab.until("document.querySelector('#delete [role=status]').className == 'bad'")
            refused = [each for each in tab.said if "400" not in each]
            assert refused == []

    asyncio.run(scenario())


async def _offsets_are_moved_after_a_dry_run(tab: Page, shown: Shown) -> None:
    tp = TopicPartition("orders", 1)
    with BlockingClient(shown.broker.bootstrap) as client:
        client.produce({tp: bytearray(batch_of(b"a", b"b"))})
        client.commit_offsets("late readers", {tp: 2})
        await tab.run("location.hash = '#/groups/late%20readers'")
        await tab.until("document.querySelectorAll('#group-partitions tbody tr').length == 1")
        assert await tab.run("document.getElementById('reset-now').hidden")
        await _fill(tab, "reset", {"to": "earliest"})
        await tab.until("document.querySelectorAll('#plan tbody tr').length == 1")
        assert client.committed_offsets("late readers", [tp])[tp] == 2
        await tab.run("document.getElementById('reset-now').click()")
        await tab.until(
            "/^moved 1/.test(document.querySelector('#reset [role=status]').textContent)"
        )
        assert client.committed_offsets("late readers", [tp])[tp] == 0


async def _fill(tab: Page, form: str, fields: dict[str, str]) -> None:
    for name, text in fields.items():
        script = f"document.getElementById('{form}').elements.{name}.value = {json.dumps(text)}"
        await tab.run(script)
    await tab.run(f"document.querySelector('#{form} button').click()")
