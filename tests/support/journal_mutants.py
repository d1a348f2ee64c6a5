"""Wrong lines, one per rule of the journal by which an event could be lost or come back: what
tests/unit/josefine_journal/test_mutants.py breaks the lives with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from josefine_journal import reduction, resolving, viewing
from josefine_journal.head_cache import HeadCache
from josefine_journal.journals import Journal
from josefine_journal.replicator import Replicator
from josefine_journal.settling import Settling
from josefine_journal.window import Window

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str


MUTANTS = [
    Mutant(
        breaks="an append whose expectation is not met is refused",
        function=reduction.counts,
        old="return expected == known or (is_least and expected > known)",
        new="return True",
    ),
    Mutant(
        breaks="an expiry whose journal was written since is void",
        function=reduction.counts,
        old="return last is not None and last.offset == expected",
        new="return last is not None",
    ),
    Mutant(
        breaks="a purge takes the last number with it",
        function=reduction.behind,
        old="return None",
        new="return last",
    ),
    Mutant(
        breaks="the store is asked for a journal's last where an expiry needs it",
        function=resolving.asks_for_last,
        old=" | Purge(expected_offset=int())",
        new="",
    ),
    Mutant(
        breaks="of the appends that a delete covers the last stays",
        function=reduction._behind_delete,
        old="each is last or not",
        new="not",
    ),
    Mutant(
        breaks="a delete never takes what comes later",
        function=resolving.settle,
        old="to=SeqNr(min(to, last.seq_nr))",
        new="to=to",
    ),
    Mutant(
        breaks="a purge in the window takes what the store has",
        function=Journal.chunks,
        old="view.stored is not None and not window.is_purged",
        new="view.stored is not None",
    ),
    Mutant(
        breaks="deletes in the window reach into the store",
        function=viewing.View.deleted_to.fget,  # type: ignore[attr-defined]
        old="max(self.window.deleted_to, self.stored.outline.deleted_to)",
        new="self.stored.outline.deleted_to",
    ),
    Mutant(
        breaks="a purge begins the window anew",
        function=Window.take,
        old="self._kept, self._kept_bytes, self._resume, self._deleted_to = [], 0, None, 0",
        new="self._deleted_to = 0",
    ),
    Mutant(
        breaks="a window that was not kept is read again from its place",
        function=Journal.chunks,
        old="viewer.actions(resume.offset, mark)",
        new="viewer.actions(resume.offset + 1, mark)",
    ),
    Mutant(
        breaks="who was overtaken forgets what it had not stored",
        function=Settling.forget,
        old="if each[0] in partitions",
        new="if False",
    ),
    Mutant(
        breaks="a partition that another one replicated is begun anew",
        function=Replicator._taken,
        old="self._forget((partition,))  # another replicator has committed",
        new="pass",
    ),
    Mutant(
        breaks="a journal that was put out of the cache is missed",
        function=HeadCache._put_out,
        old="part.missed_to = max(part.missed_to, journal.records[-1].offset + 1)",
        new="pass",
    ),
]
