"""The cluster's metadata: an immutable image, the changes that make the next one, their bytes."""
