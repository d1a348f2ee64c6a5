"""The decisions of a broker, without I/O. A host drives `broker.Broker`: step, tick, ready.

There are two hosts: asyncio and files (host/engine_host.py), and the simulator's scheduler with
in-memory files (tests/simulation/cluster/process.py).
"""
