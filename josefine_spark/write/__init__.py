"""The sink: rows to record batches, and the protocol that commits them once."""
