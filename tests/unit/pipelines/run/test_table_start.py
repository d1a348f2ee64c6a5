"""The first position of a table's stream: committed once, before the checkpoint is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Start
from pipelines.exactly_once.offset_chain import Tip
from pipelines.exactly_once.table_position import TABLE, VERSION
from pipelines.model.table_stream import TableStream
from pipelines.run.table_start import begun
from pipelines.sources.josefine import Topics

LATEST = TopicOffsets(ends={TABLE: 3 * VERSION}, topic_ids={TABLE.topic: "t1"})
TOPICS = Topics(earliest={TABLE: 0}, latest=LATEST)
REACHED = Tip(
    reached=TopicOffsets(ends={TABLE: VERSION}, topic_ids=LATEST.topic_ids), txn_version=4
)


@pytest.mark.parametrize(
    ("stream", "tip", "planned", "moves"),
    [
        (TableStream(schema="n INT", latest=True), None, False, True),
        (TableStream(schema="n INT", latest=True), None, True, False),
        (TableStream(schema="n INT", latest=True), REACHED, False, False),
        (TableStream(schema="n INT"), None, False, False),
        (None, None, False, False),
    ],
)
def test_position_is_committed_only_where_neither_side_has_one(stream, tip, planned, moves):
    done: list[str] = []
    there = SimpleNamespace(planned=object(), committed=None) if planned else None
    files: Any = SimpleNamespace(
        read=lambda: there, query_id=lambda: "q", write=lambda name, text: done.append(name)
    )
    chain: Any = SimpleNamespace(
        move=lambda commit: done.append(f"moved to {commit.end.ends[TABLE]}"),
        follow=lambda tip: None,
    )
    source: Any = SimpleNamespace(name="s", table_stream=stream, local=SimpleNamespace(path="/t"))
    spark: Any = None

    start = begun(spark, source, chain, files, Start(at=None, tip=tip), TOPICS, 0)

    assert done[:1] == [f"moved to {3 * VERSION}"] if moves else not any("moved" in d for d in done)
    assert (start.tip == Tip(reached=LATEST, txn_version=1)) is moves
    # The checkpoint continues at the chain's position, wherever the chain has one.
    assert ("offsets/0" in done) is (stream is not None and start.tip is not None)
