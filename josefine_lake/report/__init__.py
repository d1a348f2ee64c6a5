"""What a table writer shows of its tables: metrics and health over HTTP."""
