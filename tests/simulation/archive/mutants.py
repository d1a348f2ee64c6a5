"""One broken rule each, of what keeps archived records: the histories have to notice."""

from __future__ import annotations

from josefine_broker.engine.partition import archived_end
from josefine_lake.archive import newest, retention
from josefine_lake.archive.serve import Archives
from josefine_lake.archive.writer import ArchiveWriter
from josefine_lake.config import leases
from josefine_lake.writer import start
from josefine_lake.writer.delta_table import ChainedTable
from tests.simulation.mutating import Mutant

MUTANTS = (
    Mutant(
        breaks="a writer that stopped is believed",
        function=archived_end.archived_end,
        old="if note.stopped:",
        new="if False:",
        seed=3,
    ),
    Mutant(
        breaks="retention ends at what the archive has",
        function=archived_end.archived_end,
        old="return Bound(committed.offset)",
        new="return Bound(log.end_offset)",
        seed=2,
    ),
    Mutant(
        breaks="a marker is a witness",
        function=newest.records_in,
        old="if read.ends is not None:",
        new="if False:",
        seed=6,
    ),
    Mutant(
        breaks="notes come after the commit that has their offsets",
        function=ArchiveWriter._report,
        old="state.tip.reached.ends if state.tip else {}",
        new="state.positions",
        seed=2,
    ),
    Mutant(
        breaks="another run's commit stops the writer",
        function=ChainedTable._ready,
        old="if entry.txn_version is not None or entry.handed_to:",
        new="if False:",
        seed=1,
    ),
    Mutant(
        breaks="an archive behind the group's offsets is not written",
        function=start._contradiction,
        old="if ahead:",
        new="if False:",
        seed=8,
    ),
    Mutant(
        breaks="an archive of an earlier topic is not written",
        function=start._contradiction,
        old="(gone := tip.reached.recreated(ids))",
        new="(gone := ())",
        seed=6,
    ),
    Mutant(
        breaks="only old records expire",
        function=retention.is_expired,
        old="span.newest_ms < before_ms",
        new="span.newest_ms < before_ms + 40_000",
        seed=9,
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
        seed=3,
    ),
    Mutant(
        breaks="the newest archived offset is of the log's epoch",
        function=archived_end.archived_end,
        old="if epoch != last.leader_epoch:",
        new="if False:",
        seed=172,
    ),
    Mutant(
        breaks="a new leader's records follow only archived ones that it has",
        function=newest.has_new_leader,
        old="first.leader_epoch != known.leader_epoch",
        new="False",
        seed=45,
    ),
    Mutant(
        breaks="a restored table is not written",
        function=ChainedTable._ready,
        old='if entry.operation == "RESTORE":',
        new="if False:",
        seed=143,
    ),
)
