"""One sans-I/O Kafka client and two thin shells: `io_blocking` and `io_asyncio`.

The deciding part is synchronous and opens nothing: `connection` (one broker's conversation),
`session` (what is known of the cluster), and operations, generators that yield what they want done
(`effects`) and are resumed with what came of it. A shell only runs effects.
"""
