"""Folders of tables and checkpoints by path or URI: on this machine and in S3, without Spark."""
