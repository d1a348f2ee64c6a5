"""Schemas: DDL text and Arrow types."""
