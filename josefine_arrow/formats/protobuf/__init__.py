"""Protobuf: descriptors of message types."""
