"""`josefine dashboard`: a live view of a cluster as a page, served by a process of its own."""
