"""The `hermes memory` commands."""
