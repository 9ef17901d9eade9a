"""The commands: ``nntrainer-train`` and its siblings. Everything heavy is imported inside the functions that need it."""
