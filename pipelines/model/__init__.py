"""The model of a pipeline: frozen values."""
