"""Record batches and value formats to and from Arrow, without Spark."""
