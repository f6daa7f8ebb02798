"""Commands of the scheduler."""
