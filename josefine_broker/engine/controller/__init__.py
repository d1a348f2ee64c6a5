"""The controller's decisions: broker liveness, Raft membership, replica placement. Pure."""
