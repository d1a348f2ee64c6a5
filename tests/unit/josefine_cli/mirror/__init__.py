"""Of `josefine mirror`."""
