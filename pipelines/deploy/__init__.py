"""Deploys of a changed pipeline file: shadow tables, a diff of rows, the swap and its rollback."""
