"""The `hermes sessions` and `hermes recall` commands."""
