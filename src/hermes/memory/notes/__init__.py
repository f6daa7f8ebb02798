"""MEMORY.md and USER.md: the short notes that every session begins with."""
