"""The start of a damaged metadata store: refused, rebuilt or forgotten, wherever it stops."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from josefine_broker.host import damaged_metadata
from josefine_broker.host.damaged_metadata import (
    FORGOTTEN_FILE,
    OpenedMetadata,
    let_in,
    open_metadata,
)
from josefine_broker.host.disk.data_dir import DataDirError
from raft import (
    PROMISED_FILE,
    Batch,
    BlockFile,
    BlockId,
    CorruptStore,
    DiskFiles,
    Height,
    NodeId,
    State,
    Term,
)

ME = 1
PROMISED = State(term=Term(4), vote=NodeId(2))


def a_store(tmp_path: Path) -> Path:
    """Three synced states, the last one PROMISED."""
    directory = tmp_path / "raft"
    store, _ = BlockFile.open(DiskFiles(directory), NodeId(ME))
    for term in (2, 3):
        store.persist(Batch(state=State(term=Term(term), vote=NodeId(ME))))
    store.persist(Batch(state=PROMISED))
    store.close()
    return directory


def damage(directory: Path, position: int) -> None:
    (segment,) = directory.glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[position] ^= 1
    segment.write_bytes(data)


def opened(directory: Path, *, has_others: bool = True, cluster_id: str = "c") -> OpenedMetadata:
    found = open_metadata(directory, ME, cluster_id=cluster_id, has_others=has_others)
    found.store.close()
    return found


def test_whole_store_opens_without_a_word(tmp_path: Path) -> None:
    found = opened(a_store(tmp_path))

    assert (found.recovered.state, found.needs_others, found.lines) == (PROMISED, False, ())


def test_damage_before_the_last_promise_is_repaired_from_the_others(tmp_path: Path) -> None:
    directory = a_store(tmp_path)
    damage(directory, 60)

    for _ in range(2):  # also at the next start
        found = opened(directory)
        assert found.recovered.promised == PROMISED
        assert (found.recovered.state.term, found.recovered.state.vote) == (4, 2)
        assert (found.needs_others, found.has_forgotten) == (True, False)
    assert list((tmp_path / "raft.damaged").glob("*.seg")), "for a person to look at"


def test_damage_to_the_last_promise_is_forgotten_until_a_leader_lets_the_broker_in(
    tmp_path: Path,
) -> None:
    directory = a_store(tmp_path)
    damage(directory, next(iter(directory.glob("*.seg"))).stat().st_size - 60)

    assert "damaged at byte" in opened(directory).lines[0]
    store, _ = BlockFile.open(DiskFiles(directory), NodeId(ME))
    store.persist(Batch(state=State(term=Term(9))))  # it has heard of a term, and no more
    store.close()
    assert opened(directory).has_forgotten
    let_in(directory)
    assert not opened(directory).needs_others


def test_missing_metadata_of_a_broker_that_was_in_a_cluster_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "raft").mkdir()

    assert opened(tmp_path / "raft").has_forgotten


def test_new_broker_has_nothing_to_forget(tmp_path: Path) -> None:
    found = opened(tmp_path / "raft", cluster_id="", has_others=False)

    assert (found.needs_others, found.lines) == (False, ())


def test_without_other_brokers_a_damaged_start_is_refused_and_nothing_changes(
    tmp_path: Path,
) -> None:
    directory = a_store(tmp_path)
    damage(directory, 60)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    with pytest.raises(CorruptStore, match="Restore the file"):
        opened(directory, has_others=False)

    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    shutil.rmtree(directory)
    with pytest.raises(DataDirError, match=r"belongs to cluster c, but its metadata in .* missing"):
        opened(directory, has_others=False)


def test_files_of_another_broker_are_refused_and_stay(tmp_path: Path) -> None:
    directory = a_store(tmp_path)

    with pytest.raises(CorruptStore, match="belongs to node 1, not to node 2"):
        open_metadata(directory, 2, cluster_id="c", has_others=True)

    assert list(directory.glob("*.seg"))


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("position", [60, -60])
def test_start_that_is_killed_at_any_step_of_the_repair_is_finished_by_the_next_one(
    tmp_path: Path, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rename, removal and sync is a step. No step may make a broker with lost promises look
    whole, nor one with known promises forget them."""
    for steps in range(1, 12):
        directory = a_store(tmp_path / str(steps))
        size = next(iter(directory.glob("*.seg"))).stat().st_size
        damage(directory, position % size)
        left = list(range(steps))
        with monkeypatch.context() as patch:
            for owner, name in (
                (Path, "rename"),
                (damaged_metadata.shutil, "rmtree"),
                (damaged_metadata, "_sync"),
            ):
                real = getattr(owner, name)
                patch.setattr(owner, name, _counted(left, real))
            with contextlib.suppress(Killed):
                opened(directory)

        found = opened(directory)
        assert found.needs_others
        assert found.has_forgotten is (position < 0)
        assert found.recovered.promised == (None if position < 0 else PROMISED)
        marker = FORGOTTEN_FILE if position < 0 else PROMISED_FILE
        assert (directory / marker).exists()


def _counted(left: list[int], real: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        if not left:
            raise Killed
        left.pop()
        return real(*args, **kwargs)

    return call


def test_rebuilt_head_is_reached_before_the_promises_are_forgotten(tmp_path: Path) -> None:
    directory = a_store(tmp_path)
    store, _ = BlockFile.open(DiskFiles(directory), NodeId(ME))
    head = BlockId(Term(4), Height(3))
    store.persist(Batch(state=State(term=Term(5), head=head)))
    store.close()
    damage(directory, 60)

    found = opened(directory)

    assert found.recovered.promised is not None
    assert found.recovered.promised.head == head
