"""Consumer groups of the classic protocol: members, generations, rebalances, committed offsets.

`coordinator.py` has the groups of a broker and is all that a host calls; `group.py` is one group,
`joining.py`, `syncing.py` and `rebalancing.py` change it, `states.py` has the transition tables.
"""
