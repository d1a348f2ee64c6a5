"""Options of readers and writers as a user gives them, parsed and checked."""
