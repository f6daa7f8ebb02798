"""The `hermes watch`, `health` and `maintenance` commands."""
