"""Other projects' own test suites, run against brokers of this project."""
