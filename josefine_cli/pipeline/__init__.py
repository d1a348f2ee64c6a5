"""The `josefine pipeline` commands."""
