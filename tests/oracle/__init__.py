"""Differential fuzzer: the same generated requests to this broker and to Apache Kafka, and their
answers compared field by field. `python -m tests.oracle.run --help`; run.py is the way in.
"""
