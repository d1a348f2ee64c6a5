"""The metadata quorum in one broker: proposals, peers' messages, committed blocks."""
