"""Values of a table topic as columns: the decoders of `josefine_arrow`, chosen by its configs."""
