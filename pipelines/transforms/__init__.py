"""A file's transforms as Spark's columns and data frames."""
