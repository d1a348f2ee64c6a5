"""One Delta commit of a store's files, which counts also if its answer was lost.

Rule: the table decides. An object store may carry out a conditional PUT whose answer is lost;
delta-rs then finds its own commit and reports a conflict. Names of files are unique, so a commit
is there if the newest version has its files.
"""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    transactions: Sequence[Transaction],
    *,
    schema: pa.Schema,
    partition_by: Sequence[str] = (),
) -> None:
    """Commit all actions or none. Raises CommitFailedError for a conflict, DeltaError."""
    properties = CommitProperties(app_transactions=list(transactions))
    try:
        table.create_write_transaction(
            list(actions), "append", Schema.from_arrow(schema), list(partition_by),
            commit_properties=properties,
        )  # fmt: skip
    except DeltaError:
        if not _is_there(table, {each.path for each in actions if isinstance(each, AddAction)}):
            raise


def _is_there(table: DeltaTable, files: set[str]) -> bool:
    """Whether the newest version has all these files; False if none are named."""
    try:
        table.update_incremental()
        listed = pa.table(table.get_add_actions(flatten=True))
    except DeltaError:
        return False  # the first error is the one to report
    return bool(files) and files <= set(listed["path"].to_pylist())
