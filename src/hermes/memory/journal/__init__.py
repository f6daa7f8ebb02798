"""The journal of events in one SQLite file: rows, reading, writing, verification and recovery."""
