"""JSON values to Arrow columns."""
