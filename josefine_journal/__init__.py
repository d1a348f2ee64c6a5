"""The event-sourcing journal over a topic, and its store in Delta; imports no Spark.

Events, actions and payloads in kafka-journal's encoding; the fold of a journal's actions; reading
and writing over a broker, for asyncio (`journals`) and for code that waits (`blocking`); the store
(`delta_store`) and what carries a topic into it (`replicator`). docs/journal.md is the manual.
"""
