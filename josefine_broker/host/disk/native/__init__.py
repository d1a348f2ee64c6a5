"""The compiled thread that syncs files, ready to load: one folder per platform.

`sync_thread.c` is the source; `tests/build_native.py` compiles it for all platforms.
"""
