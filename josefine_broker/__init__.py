"""The standalone broker: Kafka wire protocol, partition logs, cluster state by chained Raft.

Its layers point downwards only: the import contracts in pyproject.toml, drawn in ARCHITECTURE.md.
"""
