"""Marks of the product's shape, measured and held: `./build.sh lint --shape` prints them."""
