"""What is known of a file without Spark."""
