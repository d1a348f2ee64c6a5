"""The values of a pipeline, frozen."""
