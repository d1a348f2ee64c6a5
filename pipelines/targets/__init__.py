"""Sink targets: the tables and topics that sinks write, behind one port (`target.py`).

A new type of sink is one module here and one row of `table.TARGETS`.
"""
