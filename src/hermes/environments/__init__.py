"""The environments in which commands run, and their background processes."""
