"""The whole cluster in virtual time: real handlers, cores, logs and Raft; see run.py."""
