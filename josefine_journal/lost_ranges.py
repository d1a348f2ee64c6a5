"""The offset ranges that a partition's log has lost and no store has: its start, and gaps."""

from josefine_journal.errors import RecordsGone, RecordsLost
from josefine_journal.ports import Log


async def lost_ranges(log: Log, partition: int, begin: int, end: int) -> list[tuple[int, int]]:
    """The lost ranges between `begin` and `end` (ends exclusive); reads all records in between."""
    found: list[tuple[int, int]] = []
    while begin < end:
        try:
            async for records in log.read(partition, begin, end):
                begin = records[-1].offset + 1
            break
        except RecordsLost as lost:
            found.append((lost.begin, lost.end))
            begin = lost.end
        except RecordsGone:
            start = await log.start_offset(partition)
            if start <= begin:
                break  # the log was replaced by another one
            found.append((begin, start))
            begin = start
    return found
