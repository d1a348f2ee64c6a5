"""Spark sessions: their settings, jars, compiled kernels and Python workers."""
