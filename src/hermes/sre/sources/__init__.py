"""Sources of alerts that Hermes polls."""
