"""Print a Delta table without Spark: python look.py FOLDER [VERSION]."""

import sys

from deltalake import DeltaTable

version = int(sys.argv[2]) if len(sys.argv) > 2 else None
table = DeltaTable(sys.argv[1], version=version)
names = [name for name in table.schema().to_arrow().names if not name.startswith("_")]
for row in table.to_pyarrow_table(columns=names).to_pylist():
    print(*(f"{name}={value}" for name, value in row.items()))
print("version", table.version())
