"""Leader epochs and where they ended (KIP-101, KIP-279)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs

END = 100


def test_latest_epoch_ends_at_the_log_end() -> None:
    epochs = LeaderEpochs([(0, 0), (2, 40)])

    assert epochs.end_of(2, END) == (2, END)


def test_older_epoch_ends_where_the_next_one_starts() -> None:
    epochs = LeaderEpochs([(0, 0), (2, 40), (5, 70)])

    assert epochs.end_of(0, END) == (0, 40)
    assert epochs.end_of(2, END) == (2, 70)


def test_epoch_that_wrote_nothing_is_answered_by_the_one_before() -> None:
    epochs = LeaderEpochs([(0, 0), (2, 40), (5, 70)])

    assert epochs.end_of(4, END) == (2, 70)


def test_epoch_before_the_first_one_ends_at_its_start() -> None:
    epochs = LeaderEpochs([(3, 10)])

    assert epochs.end_of(1, END) == (1, 10)


@pytest.mark.parametrize("epoch", [-1, 6])
def test_undefined_or_newer_epoch_is_not_known(epoch: int) -> None:
    assert LeaderEpochs([(0, 0), (5, 70)]).end_of(epoch, END) == (-1, -1)


def test_without_epochs_nothing_is_known() -> None:
    assert LeaderEpochs().end_of(0, END) == (-1, -1)
    assert LeaderEpochs().epoch_of(5) == -1


def test_offset_belongs_to_the_epoch_that_wrote_it() -> None:
    epochs = LeaderEpochs([(1, 10), (2, 40)])

    assert [epochs.epoch_of(offset) for offset in (9, 10, 39, 40)] == [-1, 1, 1, 2]


def test_assigning_the_current_epoch_again_changes_nothing() -> None:
    epochs = LeaderEpochs([(1, 10)])

    assert not epochs.assign(1, 50)
    assert epochs.starts == ((1, 10),)


def test_epoch_without_records_gives_way() -> None:
    epochs = LeaderEpochs([(1, 10)])

    assert epochs.assign(2, 10)

    assert epochs.starts == ((2, 10),)


@pytest.mark.parametrize("start", [(0, 50), (2, 9)])
def test_epoch_or_offset_that_goes_back_is_fatal(start: tuple[int, int]) -> None:
    with pytest.raises(Fatal):
        LeaderEpochs([(1, 10)]).assign(*start)


def test_truncated_end_takes_later_epochs_with_it() -> None:
    epochs = LeaderEpochs([(0, 0), (1, 40), (2, 70)])

    epochs.truncate_end(40)

    assert epochs.starts == ((0, 0),)


def test_truncated_start_keeps_the_epoch_that_wrote_it() -> None:
    epochs = LeaderEpochs([(0, 0), (1, 40), (2, 70)])

    epochs.truncate_start(55)

    assert epochs.starts == ((1, 55), (2, 70))


growing = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), max_size=20)


@given(growing, st.integers(0, 30), st.integers(0, 300))
def test_answer_agrees_with_a_list_of_every_offset(
    growth: list[tuple[int, int]], asked: int, cut: int
) -> None:
    written: list[int] = []  # the epoch of each offset
    epochs = LeaderEpochs()
    epoch = 0
    for step, records in growth:
        epoch += step
        epochs.assign(epoch, len(written))
        written += [epoch] * records
    if cut < len(written):
        epochs.truncate_end(cut)
        del written[cut:]

    known = sorted(set(written))
    if not known or asked > known[-1]:
        expected = (-1, -1)
    else:
        below = [each for each in known if each <= asked]
        expected = (below[-1] if below else asked, sum(each <= asked for each in written))
    assert epochs.end_of(asked, len(written)) == expected
    assert [epochs.epoch_of(n) for n in range(len(written))] == written
    assert LeaderEpochs.from_bytes(epochs.to_bytes(2**40)).starts == epochs.starts


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x01", b"\x00\x02\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x01"]
)
def test_damaged_checkpoint_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        LeaderEpochs.from_bytes(data)


@pytest.mark.parametrize(
    "starts", [((2, 20), (1, 10)), ((1, 10), (1, 20)), ((1, 10), (2, 10)), ((1, 20), (2, 10))]
)
def test_checkpoint_that_does_not_grow_in_both_is_corrupt(starts: tuple[tuple[int, int]]) -> None:
    data = struct.pack(">hi", 1, 2) + b"".join(struct.pack(">iq", *start) for start in starts)

    with pytest.raises(CorruptData, match="does not grow"):
        LeaderEpochs.from_bytes(data)


def test_checkpoint_leaves_out_the_epoch_that_wrote_nothing_yet() -> None:
    epochs = LeaderEpochs([(1, 10), (2, 20)])

    assert LeaderEpochs.from_bytes(epochs.to_bytes(20)).starts == ((1, 10),)
    assert LeaderEpochs.from_bytes(epochs.to_bytes(21)).starts == ((1, 10), (2, 20))
