"""The event-sourcing journal over a topic, and its store in Delta; imports no Spark.

Events, actions and payloads in kafka-journal's encoding; the fold of a journal's actions; reads and
writes over a broker, for asyncio (`journals`) and for synchronous code (`blocking`); the store
(`delta_store`) and the replication of a topic into it (`replicator`).
Manual: docs/reference/journal.md.
"""
