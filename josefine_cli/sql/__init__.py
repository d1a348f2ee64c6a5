"""`josefine sql`: queries over table topics without Spark."""
