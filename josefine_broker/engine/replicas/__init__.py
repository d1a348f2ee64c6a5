"""The hosted partitions of this broker: append, leader, follower and acknowledgement paths."""
