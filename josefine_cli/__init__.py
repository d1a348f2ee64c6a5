"""The `josefine` command: one file per group of verbs, each part loaded only when used."""
