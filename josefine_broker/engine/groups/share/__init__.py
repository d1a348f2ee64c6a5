"""Share groups (KIP-932): members that share the records of a partition, each record with a lock,
a delivery count and an acknowledgement of its own."""
