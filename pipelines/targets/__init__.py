"""Sink targets: the places that a sink's rows go to, behind one port (`target.py`).

A new type of sink is one module here and one row of `table.TARGETS`.
"""
