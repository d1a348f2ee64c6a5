"""Schemas: DDL texts and Arrow types."""
