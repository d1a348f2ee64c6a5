"""Spark helpers of pipelines: settings, errors, files, the JVM."""
