"""The metadata of the cluster: an immutable image, the changes that make the next one, codecs."""
