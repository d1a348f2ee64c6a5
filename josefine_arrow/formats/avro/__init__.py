"""Avro: schemas, reader and writer."""
