"""One Delta commit of written files, which counts also if its answer was lost.

Rules: the table decides. An object store may carry out a conditional PUT whose answer is lost;
delta-rs then finds its own commit and reports a conflict. Names of files are unique, so a commit
is there if the newest version has its files. After commits of others it is made again, if they left
the files that it removes, and the table's columns and properties: delta-rs by itself puts a merge
also on top of an OPTIMIZE of the same files, and each row would be there twice. A pipeline's chain
looks at each commit of others instead: `pipelines.sinks.commits`.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

ATTEMPTS_MAX = 16
"""As many as delta-rs makes."""
_CLEANUP = {"delta.logRetentionDuration", "delta.enableExpiredLogCleanup"}


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    transactions: Sequence[Transaction] = (),
    conflicts: Callable[[str], bool] = lambda path: False,
    hooks: PostCommitHookProperties | None = None,
) -> None:
    """Commit all actions or none, onto what `table` is open at or what leaves it valid; `conflicts`
    with a file that came meanwhile, in addition. `hooks`: what delta-rs does after it; by default
    it cleans the log up, unless the table has rules for that. Raises CommitFailedError for a
    conflict, DeltaError."""
    properties = CommitProperties(app_transactions=list(transactions), max_commit_retries=0)
    added = {each.path for each in actions if isinstance(each, AddAction)}
    removed = {each.path for each in actions if isinstance(each, RemoveAction)}
    schema, columns = table.schema(), table.metadata().partition_columns
    if hooks is None and _CLEANUP & table.metadata().configuration.keys():
        # delta-rs does not read all forms of them, and deletes entries after 30 days then.
        hooks = PostCommitHookProperties(cleanup_expired_logs=False)
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
            if there is None:
                raise  # the first error is the one to report
            if added and added <= there:
                return
            is_conflict = isinstance(error, CommitFailedError) and attempt < ATTEMPTS_MAX
            is_valid = removed <= there and not any(map(conflicts, there))
            if not (is_conflict and is_valid and _rules(table) == rules):
                raise
            # The next attempt is onto the version that was looked at, or it is a conflict.
        else:
            return


def has_deleted_rows(table: DeltaTable) -> bool:
    """Whether some files have deletion vectors, which only delta-rs applies."""
    features = table.protocol().writer_features or []
    if "deletionVectors" not in features:
        return False
    return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(
        table.deletion_vectors()
    ))  # fmt: skip


def _files(table: DeltaTable) -> set[str] | None:
    """The files of the newest version; None if it cannot be read."""
    try:
        table.update_incremental()
        return {*pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()}
    except DeltaError:
        return None


def _rules(table: DeltaTable) -> tuple[object, ...]:
    """What files depend on that are written for a table."""
    metadata, protocol = table.metadata(), table.protocol()
    rules = table.schema().to_json(), protocol, metadata.id, metadata.configuration
    return *rules, has_deleted_rows(table)
