"""One broken rule each, of what keeps archived records: the histories have to notice."""

from __future__ import annotations

from josefine_broker.engine.partition import archived_end
from josefine_lake.archive import newest, retention
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.serve import Archives
from josefine_lake.archive.writer import ArchiveWriter
from josefine_lake.config import leases
from josefine_lake.writer import start
from josefine_lake.writer.delta_table import ChainedTable
from tests.simulation.mutating import Mutant

MUTANTS = (
    Mutant(
        breaks="a look counts for a while",
        function=archived_end.archived_end,
        old="now_ms - looked_ms > FRESH_MS",
        new="now_ms - looked_ms > 100 * FRESH_MS",
    ),
    Mutant(
        breaks="the first look may be of any age",
        function=archived_end.heard,
        old="return Witness(committed, note, None, now_ms)",
        new="return Witness(committed, note, now_ms, now_ms)",
    ),
    Mutant(
        breaks="the note is of this topic",
        function=archived_end.archived_end,
        old="if note.topic_id != topic_id:",
        new="if False:",
    ),
    Mutant(
        breaks="a writer that stopped is believed",
        function=archived_end.archived_end,
        old="if note.stopped:",
        new="if False:",
    ),
    Mutant(
        breaks="the newest archived offset is of the log's epoch",
        function=archived_end.archived_end,
        old="if epoch != last.leader_epoch:",
        new="if False:",
    ),
    Mutant(
        breaks="retention ends at what the archive has",
        function=archived_end.archived_end,
        old="return Bound(committed.offset)",
        new="return Bound(log.end_offset)",
    ),
    Mutant(
        breaks="a marker is a witness",
        function=newest.records_in,
        old="if read.ends is not None:",
        new="if False:",
    ),
    Mutant(
        breaks="a new leader's records follow only archived ones that it has",
        function=newest.has_new_leader,
        old="first.leader_epoch != known.leader_epoch",
        new="False",
    ),
    Mutant(
        breaks="notes come after the commit that has their offsets",
        function=ArchiveWriter._report,
        old="state.tip.reached.ends if state.tip else {}",
        new="state.positions",
    ),
    Mutant(
        breaks="a note comes after a look at the archive",
        function=ArchiveWriter._report,
        old="self._notes.table_id = store.identity()",
        new="self._notes.table_id = ''",
    ),
    Mutant(
        breaks="a note has the topic's id",
        function=ArchiveNotes.commit,
        old="topic_id=self.topic_id",
        new="topic_id=str(self._client._runner.world.cluster.topic_id)",
    ),
    Mutant(
        breaks="a table that lost its log is not written",
        function=ChainedTable._ready,
        old="if self._text(self._version) != self._seen:",
        new="if False:",
    ),
    Mutant(
        breaks="a restored table is not written",
        function=ChainedTable._ready,
        old='if entry.operation == "RESTORE":',
        new="if False:",
    ),
    Mutant(
        breaks="another run's commit stops the writer",
        function=ChainedTable._ready,
        old="if entry.txn_version is not None or entry.handed_to:",
        new="if False:",
    ),
    Mutant(
        breaks="a file is where its commit names it",
        function=ChainedTable._require,
        old="if self.folder.at is not None:",
        new="if True:",
    ),
    Mutant(
        breaks="an archive behind the group's offsets is not written",
        function=start._contradiction,
        old="if ahead:",
        new="if False:",
    ),
    Mutant(
        breaks="an archive of an earlier topic is not written",
        function=start._contradiction,
        old="(gone := tip.reached.recreated(ids))",
        new="(gone := ())",
    ),
    Mutant(
        breaks="only old records expire",
        function=retention.is_expired,
        old="span.newest_ms < before_ms",
        new="span.newest_ms < before_ms + 40_000",
    ),
    Mutant(
        breaks="a partition expires from its start",
        function=retention._first_of,
        old="if best is not None and span.first >= best:",
        new="if True:",
    ),
    Mutant(
        breaks="one process has the lease",
        function=leases.leased,
        old="if tp.partition == lease_partition(tp.topic, counts.get(tp.topic, 0))",
        new="if True",
    ),
    Mutant(
        breaks="an emptied archive is an error for readers",
        function=Archives._refuse_gone,
        old="if found and is_of_topic and found.offset > table.end(partition):",
        new="if False:",
    ),
)
