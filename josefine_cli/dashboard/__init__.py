"""`josefine dashboard`: a page that shows a cluster as it lives, served by a process of its own."""
