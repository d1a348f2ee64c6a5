"""Pages of the site that are generated from code, and checks of what the pages show."""
