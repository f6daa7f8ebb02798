"""A Prometheus that is asked for trouble."""
