"""`josefine broker`, and what looks at one broker's machine, configuration and files."""
