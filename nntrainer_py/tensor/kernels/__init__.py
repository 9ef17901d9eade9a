"""Machine code: arrays in, arrays filled; one file per family, and one place, compile.py, that calls njit."""
