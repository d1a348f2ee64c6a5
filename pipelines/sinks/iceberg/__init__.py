"""The sink target `type: iceberg`: Spark writes Parquet files, PyIceberg commits them.

It needs no Iceberg jar: executors only write files, and the driver adds them to the table.
"""
