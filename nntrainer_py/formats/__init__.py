"""Files that hold models and weights."""
