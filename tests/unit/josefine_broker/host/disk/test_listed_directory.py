"""The names of a directory that are read once: they answer as the files below would."""

from __future__ import annotations

import pytest

from josefine_broker.host.disk.listed_directory import ListedDirectory
from tests.simulation.memory_files import MemoryFile, MemoryFiles

LOG, EPOCHS = "orders-0/0.log", "orders-0/leader-epochs.checkpoint"


class CountingFiles(MemoryFiles):
    """Counts what costs a system call each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def list(self, directory: str) -> list[str]:
        self.calls += 1
        return super().list(directory)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.calls += 1
        return super().open(path, create=create)


@pytest.fixture
def below() -> CountingFiles:
    files = CountingFiles()
    files.make_directory("orders-0")
    files.make_directory("orders-1")
    files.open(LOG, create=True)
    return files


@pytest.fixture
def listed(below: CountingFiles) -> ListedDirectory:
    listed = ListedDirectory(below, "orders-0", below.list("orders-0"))
    below.calls = 0
    return listed


def test_names_are_read_once(below: CountingFiles, listed: ListedDirectory) -> None:
    found = [listed.list("orders-0") for _ in range(3)]

    assert found == [["0.log"]] * 3
    assert below.calls == 0


def test_missing_file_costs_no_system_call(below: CountingFiles, listed: ListedDirectory) -> None:
    with pytest.raises(FileNotFoundError):
        listed.open(EPOCHS)

    assert below.calls == 0


def test_file_that_is_listed_and_gone_is_an_error(
    below: CountingFiles, listed: ListedDirectory
) -> None:
    below.remove(LOG)

    with pytest.raises(FileNotFoundError):
        listed.open(LOG)


def test_changed_list_of_a_caller_changes_nothing(listed: ListedDirectory) -> None:
    listed.list("orders-0").clear()

    assert listed.list("orders-0") == ["0.log"]


def test_each_change_is_seen(listed: ListedDirectory) -> None:
    listed.open(EPOCHS, create=True)
    assert listed.list("orders-0") == ["0.log", "leader-epochs.checkpoint"]

    listed.rename(EPOCHS, "orders-0/other")
    assert listed.list("orders-0") == ["0.log", "other"]

    listed.remove("orders-0/other")
    assert listed.list("orders-0") == ["0.log"]

    listed.remove_tree("orders-0")
    assert listed.list("orders-0") == []

    listed.make_directory("orders-0")
    listed.open(LOG, create=True)
    assert listed.list("orders-0") == ["0.log"]


def test_change_by_other_means_is_seen_once_it_is_announced(
    below: CountingFiles, listed: ListedDirectory
) -> None:
    listed.forget()
    below.open(EPOCHS, create=True)

    listed.open(EPOCHS)

    assert listed.list("orders-0") == ["0.log", "leader-epochs.checkpoint"]


def test_other_directories_are_passed_on(below: CountingFiles, listed: ListedDirectory) -> None:
    below.open("orders-1/0.log", create=True)

    assert listed.list("orders-1") == ["0.log"]
    listed.open("orders-1/0.log")


def test_nothing_is_remembered_once_the_log_is_open(
    below: CountingFiles, listed: ListedDirectory
) -> None:
    listed.forget_for_good()
    assert listed.list("orders-0") == ["0.log"]

    below.open(EPOCHS, create=True)

    assert listed.list("orders-0") == ["0.log", "leader-epochs.checkpoint"]
    listed.open(EPOCHS)
