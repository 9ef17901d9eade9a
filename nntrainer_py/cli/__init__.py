"""The commands: ``nntrainer-train`` and its siblings. What is heavy is imported inside the functions that need it."""
