"""`josefine journal`: journals of events in a topic, and their store."""
