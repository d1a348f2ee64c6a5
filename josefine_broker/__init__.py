"""The standalone broker: Kafka wire protocol, partition logs, cluster state by chained Raft.

Layers, downwards only: main, node, membership | storage_watch, peers, joining | quorum, shell |
handlers, core, records, wire, base; beside them client, records, wire, base.
Each layer's docstring says what its files cannot do.
"""
