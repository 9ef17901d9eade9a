"""Data sets, and the loader that turns them into batches."""
