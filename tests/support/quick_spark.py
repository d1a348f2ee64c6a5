"""The `spark` section of pipeline files whose runs take seconds: a JVM that starts soon."""

SPARK = """\
spark:
  master: "local[2]"
  conf:
    spark.sql.shuffle.partitions: 2
    spark.driver.memory: 1g
    # Two cores: the optimizing compiler would take more than it gives.
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
  checkpoint: ${LAB}/checkpoints
"""
