"""What `/health`, `/metrics`, `/cluster` and `/debug` read of a running broker. Reads only."""
