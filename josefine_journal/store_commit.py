"""One Delta commit of a store's files, which counts also if its answer was lost.

Rules: the table decides. An object store may carry out a conditional PUT whose answer is lost;
delta-rs then finds its own commit and reports a conflict. Names of files are unique, so a commit
is there if the newest version has its files. After commits of others it is made again, if they left
the files that it removes, its transactions, and the table's columns and properties as they were:
delta-rs by itself puts a merge also on top of an OPTIMIZE of the same files, and each row would be
there twice.
"""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

ATTEMPTS_MAX = 16
"""As many as delta-rs makes."""


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    transactions: Sequence[Transaction],
    *,
    schema: pa.Schema,
    partition_by: Sequence[str] = (),
) -> None:
    """Commit all actions or none, onto what `table` is open at or what leaves it valid. Raises
    CommitFailedError for a conflict, DeltaError."""
    properties = CommitProperties(app_transactions=list(transactions), max_commit_retries=0)
    added = {each.path for each in actions if isinstance(each, AddAction)}
    removed = {each.path for each in actions if isinstance(each, RemoveAction)}
    for attempt in range(1, ATTEMPTS_MAX + 1):
        seen = table.version()
        try:
            table.create_write_transaction(
                list(actions), "append", Schema.from_arrow(schema), list(partition_by),
                commit_properties=properties,
            )  # fmt: skip
        except DeltaError as error:
            there = _files(table)
            if there is None:
                raise  # the first error is the one to report
            if added and added <= there:
                return
            is_conflict = isinstance(error, CommitFailedError) and attempt < ATTEMPTS_MAX
            if not (is_conflict and removed <= there and _is_valid(table, seen, transactions)):
                raise
        else:
            return


def _files(table: DeltaTable) -> set[str] | None:
    """The files of the newest version; None if it cannot be read."""
    try:
        table.update_incremental()
        return {*pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()}
    except DeltaError:
        return None


def _is_valid(table: DeltaTable, seen: int, transactions: Sequence[Transaction]) -> bool:
    """Whether what a commit depends on next to files is as it was at the version `seen`."""
    at, now = table.version(), _dependencies(table, transactions)
    try:
        table.load_as_version(seen)
        before = _dependencies(table, transactions)
        # Not the newest version: its files were not looked at.
        table.load_as_version(at)
    except DeltaError:  # the log was cleaned up
        return False
    return now == before


def _dependencies(table: DeltaTable, transactions: Sequence[Transaction]) -> tuple[object, ...]:
    # Not for each commit: a lookup of a transaction searches the log.
    versions = [table.transaction_version(each.app_id) for each in transactions]
    metadata = table.metadata()
    rules = table.protocol(), metadata.id, metadata.configuration
    return table.schema().to_json(), *rules, versions
