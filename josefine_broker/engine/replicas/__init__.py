"""The partitions that this broker hosts, at work: appending, leading, following, confirming."""
