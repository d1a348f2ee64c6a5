"""What every part of the pipelines may use."""
