"""One Delta commit of written files, which counts also if its answer was lost.

Rules: the log decides. An object store may carry out a conditional PUT whose answer is lost;
delta-rs then finds its own commit and reports a conflict. So each commit has an id, by which it is
found in the log also after others have merged or deleted its rows, or restored a version before it.
A commit that the log does not have is made again after commits of others, if they left the files
that it removes, and the table's columns and properties, and none is a RESTORE below removed files:
delta-rs by itself puts a merge also on top of an OPTIMIZE of the same files, and each row would be
there twice. A pipeline's chain looks at each commit of others instead: `pipelines.sinks.commits`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from josefine_journal.log_retention import why_not_cleaned

ATTEMPTS_MAX = 16
"""As many as delta-rs makes."""
COMMIT_ID = "txnId"
"""Delta for Spark has ids of its commits under this name, too."""


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    transactions: Sequence[Transaction] = (),
    conflicts: Callable[[str], bool] = lambda path: False,
    *,
    entry: Callable[[int], str | None],
) -> None:
    """Commit all actions or none, onto what `table` is open at or what leaves it valid; `conflicts`
    with a file that came meanwhile, in addition. `entry`: the text of a version's log entry, None
    without one. Raises CommitFailedError for a conflict, DeltaError."""
    commit_id, since = uuid4().hex, table.version()
    properties = CommitProperties(
        custom_metadata={COMMIT_ID: commit_id},
        app_transactions=list(transactions),
        max_commit_retries=0,
    )
    removed = {each.path for each in actions if isinstance(each, RemoveAction)}
    schema, columns = table.schema(), table.metadata().partition_columns
    hooks = cleanup(table)
    # Before the first attempt: afterwards another table may be in the folder.
    rules = _rules(table)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            table.create_write_transaction(
                list(actions), "append", schema, columns, commit_properties=properties,
                post_commithook_properties=hooks,
            )  # fmt: skip
        except DeltaError as error:
            there = _files(table)
            came = None if there is None else _entries(entry, since + 1, table.version())
            if there is None or came is None:
                raise  # the first error is the one to report
            if any(commit_id in each for each in came):
                return
            is_conflict = isinstance(error, CommitFailedError) and attempt < ATTEMPTS_MAX
            is_valid = removed <= there and not any(map(conflicts, there))
            # It may bring back rows that a merge of all files no longer knows to be deleted.
            if removed and any(map(_is_restore, came)):
                raise
            if not (is_conflict and is_valid and _rules(table) == rules):
                raise
            # The next attempt is onto the version that was looked at, or it is a conflict.
        else:
            return


def cleanup(table: DeltaTable) -> PostCommitHookProperties:
    """Whether the log is cleaned up after a commit: not where delta-rs would do so by its default,
    because it does not read the table's retention."""
    is_read = not why_not_cleaned(table.metadata().configuration)
    return PostCommitHookProperties(cleanup_expired_logs=None if is_read else False)


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Set properties of any names."""
    table.alter.set_table_properties(
        dict(properties), raise_if_not_exists=False, post_commithook_properties=cleanup(table)
    )


def vacuum(table: DeltaTable, retention_hours: int) -> int:
    """Delete files that no version of the last hours contains; returns how many."""
    gone = table.vacuum(
        retention_hours, dry_run=False, enforce_retention_duration=False, full=True,
        post_commithook_properties=cleanup(table),
    )  # fmt: skip
    return len(gone)


def has_deleted_rows(table: DeltaTable) -> bool:
    """Whether some files have deletion vectors, which only delta-rs applies."""
    features = table.protocol().writer_features or []
    if "deletionVectors" not in features:
        return False
    return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(
        table.deletion_vectors()
    ))  # fmt: skip


def _files(table: DeltaTable) -> set[str] | None:
    """The files of the newest version, at which the table is open then; None if it cannot be
    read."""
    try:
        table.update_incremental()
        return {*pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()}
    except DeltaError:
        return None


def _entries(entry: Callable[[int], str | None], first: int, last: int) -> list[str] | None:
    """The log entries of these versions; None if some cannot be read."""
    try:
        # Not delta-rs's `history`, which lets no other thread run while it asks a store.
        found = [entry(version) for version in range(first, last + 1)]
    except OSError:
        return None
    texts = [each for each in found if each is not None]
    return texts if len(texts) == len(found) else None


def _is_restore(entry: str) -> bool:
    infos = (json.loads(line) for line in entry.split("\n") if '"commitInfo"' in line[:20])
    return any(each["commitInfo"].get("operation") == "RESTORE" for each in infos)


def _rules(table: DeltaTable) -> tuple[object, ...]:
    """What files depend on that are written for a table."""
    metadata, protocol = table.metadata(), table.protocol()
    rules = table.schema().to_json(), protocol, metadata.id, metadata.configuration
    return *rules, has_deleted_rows(table)
