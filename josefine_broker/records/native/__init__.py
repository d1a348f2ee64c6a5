"""The compiled structure check of produced records, ready to load: one folder per platform.

`record_structure.c` is the source; `tests/build_native.py` compiles it for all platforms
(`./build.sh native`): installing or running a broker needs no compiler.
"""
