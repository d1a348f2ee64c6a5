"""The sink target `type: iceberg`: Spark writes Parquet files, PyIceberg commits them.

No Iceberg jar is needed: executors know nothing of the table, the driver adds their files to it.
"""
