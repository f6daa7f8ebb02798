"""The `hermes incident` commands."""
