"""What is counted of a process's calls, and where a persistence id lives."""

import asyncio
import logging

import pytest

from josefine_journal.calls import Calls
from josefine_journal.errors import ConcurrentWriter
from josefine_journal.events import Event, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.naming import Place, constant_topic, split
from tests.support.journal_world import MemoryLog


def test_calls_are_counted_and_slow_ones_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Checklist row 72."""
    calls = Calls(slow_s=0)

    async def run() -> None:
        journal = Journals(None, "t", log=MemoryLog(1), calls=calls).journal("id")
        await journal.append([Event(seq_nr=SeqNr(1))])
        with pytest.raises(ConcurrentWriter):
            await journal.append([Event(seq_nr=SeqNr(3))], expected_seq_nr=2)
        assert [each async for each in journal.read()]
        await journal.delete()
        await journal.purge()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())

    text = calls.text()
    for line in (
        'journal_topic_latency_count{topic="t",type="append"} 2.0',
        'journal_results_total{result="failure",topic="t",type="append"} 1.0',
        'journal_results_total{result="success",topic="t",type="read"} 1.0',
        'journal_results_total{result="success",topic="t",type="delete"} 1.0',
        'headcache_get_result_total{result="hit",topic="t"}',
    ):
        assert line in text, text
    assert "slow call of a journal: topic=t call=append" in caplog.text


@pytest.mark.parametrize(
    ("persistence_id", "topic", "key"),
    [
        ("orders-7", "orders", "7"),
        ("orders-eu-7", "orders-eu", "7"),
        ("7", "others", "7"),
        ("orders-", "others", "orders-"),
        ("-7", "others", "-7"),
    ],
)
def test_an_id_is_split_at_its_last_separator_or_as_it_is(
    persistence_id: str, topic: str, key: str
) -> None:
    """Checklist row 73."""
    assert split("others")(persistence_id) == Place(topic=topic, key=key)
    assert constant_topic("one")(persistence_id) == Place(topic="one", key=persistence_id)
