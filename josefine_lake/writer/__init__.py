"""The table writer: committed records of a topic into its Delta table, each once."""
