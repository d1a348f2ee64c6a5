"""Code shared by the files of several API keys."""
