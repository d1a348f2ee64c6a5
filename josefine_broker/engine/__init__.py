"""What a broker decides, without I/O: `broker.Broker` is what a host drives (step, tick, ready).

Two hosts drive it: asyncio and files (host/engine_host.py), and the simulator's scheduler with
memory files (tests/simulation/cluster/process.py).
"""
