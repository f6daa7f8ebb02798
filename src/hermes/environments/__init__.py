"""Places where commands run, and their background processes."""
