"""`josefine archive`: the archives of topics."""
