"""The event-sourcing journal over a topic and a Delta table; imports no Spark.

Built so far: events, actions and payloads in kafka-journal's encoding, and the fold of a journal's
unreplicated actions. Reading, writing and replication come with a later issue (see CHANGELOG.md).
"""
