"""`josefine mirror`: topics of another cluster, with the same offsets."""
