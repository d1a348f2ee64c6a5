"""The distributions that this repository is published as, and their build."""
