"""A table that was there before its topic."""

import pyarrow as pa
from deltalake import write_deltalake

rows = pa.table({"id": pa.array([1, 2], pa.int64()), "note": ["by hand", "by hand"]})
write_deltalake("lake/payments", rows)
