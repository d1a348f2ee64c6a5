"""`josefine tables`: the Delta tables of topics."""
