"""One sans-I/O Kafka client with two thin shells: io_blocking.py and io_asyncio.py."""
