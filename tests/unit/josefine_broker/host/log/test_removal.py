"""Directories of partitions: free at once, removed later, by one job for all that wait."""

from __future__ import annotations

import pytest

from josefine_broker.host.log.removal import DELETED_PREFIX, Removal


class Files:
    """A disk that notes what is done, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails = False

    def rename(self, old: str, new: str, *, durable: bool) -> None:
        assert not durable
        self.done.append(f"{old} -> {new}")

    def sync_directory(self, directory: str) -> None:
        if self.fails:
            raise OSError("broken")
        self.done.append(f"sync '{directory}'")

    def remove_tree(self, directory: str) -> None:
        self.done.append(f"remove {directory}")


def test_new_names_are_synced_before_anything_below_them_is_removed_by_one_job() -> None:
    files, jobs = Files(), []
    removal = Removal(files, jobs.append)  # type: ignore[arg-type]

    removal.remove("t-0")
    removal.remove("t-1")
    assert files.done == ["t-0 -> ~deleted.1", "t-1 -> ~deleted.2"]
    (job,) = jobs
    job()

    assert files.done[2:] == ["sync ''", "remove ~deleted.1", "remove ~deleted.2"]
    removal.remove("t-0")
    assert len(jobs) == 2
    assert DELETED_PREFIX[0] == "~"


def test_after_a_sync_that_failed_nothing_is_removed_and_the_next_removal_has_a_job() -> None:
    files, jobs = Files(), []
    removal = Removal(files, jobs.append)  # type: ignore[arg-type]
    removal.remove("t-0")
    files.fails = True

    with pytest.raises(OSError, match="broken"):
        jobs[0]()

    assert "remove ~deleted.1" not in files.done
    removal.remove("t-1")
    assert len(jobs) == 2
