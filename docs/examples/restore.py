"""Rows of a table, or its restoration: python restore.py FOLDER [VERSION]."""

import sys

from deltalake import DeltaTable

table = DeltaTable(sys.argv[1])
if len(sys.argv) > 2:
    table.restore(int(sys.argv[2]))
rows = table.to_pyarrow_table(columns=["id", "_offset"]).to_pylist()
print("version", table.version(), sorted((row["_offset"], row["id"]) for row in rows))
