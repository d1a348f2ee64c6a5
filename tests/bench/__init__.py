"""Measures: `./build.sh bench [broker|spark]`. Nothing here is collected by pytest."""
