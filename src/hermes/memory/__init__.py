"""Journal store, search, notes (MEMORY.md), recall."""
