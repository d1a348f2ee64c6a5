"""The comparison of two sides, each a list of batches."""

from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.records.batch import NO_LEADER_EPOCH, build_empty_batch
from josefine_cli.mirror.plan import Ends
from josefine_cli.mirror.verify import check_compacted, check_partition
from tests.unit.josefine_cli.mirror.test_plan import at

TP = TopicPartition("t", 0)


class Side:
    """A client of a topic with these batches."""

    def __init__(self, *batches: bytes) -> None:
        self._data = memoryview(b"".join(batches))

    def fetch(self, positions: dict[TopicPartition, int], **_: Any) -> Any:
        assert list(positions) == [TP]
        return {
            TP: FetchedPartition(
                records=self._data, high_watermark=9, last_stable_offset=9, log_start_offset=0,
                error_code=ErrorCode.none, aborted=(), preferred_read_replica=-1,
            )
        }  # fmt: skip


def side(*batches: bytes) -> Any:
    return Side(*batches)


def test_epochs_and_batches_without_records_do_not_count() -> None:
    gap = bytes(build_empty_batch(0, 5, NO_LEADER_EPOCH))
    found = check_partition(side(at(5, b"a", epoch=3)), side(gap, at(5, b"a")), TP, Ends(0, 6))
    assert (found.batches, found.wrong) == (1, "")


def test_first_difference_is_named() -> None:
    one, other = at(0, b"a"), at(1, b"b")
    found = check_partition(side(one, other), side(one, at(1, b"c")), TP, Ends(0, 2))
    assert found.wrong == "the batches at offset 1 differ"
    found = check_partition(side(other), side(one, other), TP, Ends(0, 2))
    assert found.wrong == "the batches at offset 0 differ"


def test_compacted_sides_are_compared_where_both_have_records() -> None:
    one, other = at(0, b"a"), at(1, b"b")
    assert check_compacted(side(other), side(one, other), TP, Ends(0, 2)).batches == 1
    found = check_compacted(side(one, other), side(one, at(1, b"c")), TP, Ends(0, 2))
    assert found.wrong == "the records at offset 1 differ"
