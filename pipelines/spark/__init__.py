"""Spark as pipelines use it: settings, errors, files, the JVM."""
