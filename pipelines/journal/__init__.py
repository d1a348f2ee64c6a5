"""The journal replicator as a Spark job."""
