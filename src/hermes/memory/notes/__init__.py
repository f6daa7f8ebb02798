"""MEMORY.md and USER.md: the small core of memory that every session begins with."""
