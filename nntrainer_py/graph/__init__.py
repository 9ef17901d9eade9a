"""The model as a graph: text, description, passes, order, and the way down to operations."""
