"""The `hermes skills` commands."""
