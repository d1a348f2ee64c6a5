"""Client connections, and the admin listener."""
