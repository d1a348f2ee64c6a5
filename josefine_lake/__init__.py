"""Table topics: a Delta table of a topic, kept by a writer without a JVM."""
