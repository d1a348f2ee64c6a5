"""Repair of damaged ranges of a replica from other replicas: decisions only, no I/O."""
