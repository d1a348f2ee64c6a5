"""Transforms of a pipeline file as Spark columns and DataFrames."""
