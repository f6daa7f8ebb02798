"""The journal store, session search and recall, facts, and notes (MEMORY.md)."""
