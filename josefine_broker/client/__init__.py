"""A sans-I/O Kafka client with two thin shells: `io_blocking` and `io_asyncio`.

The core is synchronous and does no I/O: `connection` (the protocol state of one connection),
`session` (the known state of the cluster), and operations: generators that yield effects
(`effects`) and are resumed with their results. A shell only runs effects.
"""
