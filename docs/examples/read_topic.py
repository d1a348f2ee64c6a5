"""Read a topic with Spark, as a batch and as a stream: python read_topic.py TOPIC."""

import sys

from josefine_spark import session

spark = session("read_topic")
options = {"bootstrapServers": "127.0.0.1:9092", "subscribe": sys.argv[1]}

batch = spark.read.format("josefine").options(**options).load()
batch.selectExpr("partition", "offset", "cast(value as string) as value").show(truncate=False)

stream = spark.readStream.format("josefine").options(**options, startingOffsets="earliest").load()
query = (
    stream.selectExpr("cast(value as string) as value")
    .writeStream.format("delta")
    .option("checkpointLocation", "lake/_checkpoint")
    .trigger(availableNow=True)
    .start("lake/raw")
)
query.awaitTermination()
print("rows in the table:", spark.read.format("delta").load("lake/raw").count())
