"""The `hermes approvals` commands."""
