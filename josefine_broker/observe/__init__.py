"""Views of a running broker for `/health`, `/metrics`, `/cluster` and `/debug`. Reads only."""
