"""Consumer groups: who is a member, in which generation, and who is to be told what.

`coordinator.py` holds the groups of a broker and is all that a host calls; `group.py` is one group,
`joining.py`, `syncing.py` and `rebalancing.py` are what happens to it, `states.py` the tables.
"""
