"""The runnable half of a skill: its schema, its linter, and what runs it without a model."""
