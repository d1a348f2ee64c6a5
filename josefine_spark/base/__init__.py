"""What every part of the connector may use."""
