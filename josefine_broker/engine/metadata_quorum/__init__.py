"""The metadata's Raft at work in one broker: proposals, peers' messages, committed blocks."""
