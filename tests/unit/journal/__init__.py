"""The journal's encoding and folds."""
