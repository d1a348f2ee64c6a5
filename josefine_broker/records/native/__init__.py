"""The compiled structure check of produced records, ready to load: one folder per platform.

`record_structure.c` is the source, `tests/build_native.py` compiles it for all of them
(`./build.sh native`): nobody needs a compiler to install or run a broker.
"""
