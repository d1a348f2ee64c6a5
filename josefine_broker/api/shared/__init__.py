"""What the files of several API keys share."""
