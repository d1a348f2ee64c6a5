"""`josefine cluster`: a local cluster, and a running one."""
