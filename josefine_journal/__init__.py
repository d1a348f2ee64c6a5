"""The event-sourcing journal over a topic and a Delta table (a later issue; see CHANGELOG.md)."""
