"""What every verb may use: errors, output, waiting, signals, client configuration."""
