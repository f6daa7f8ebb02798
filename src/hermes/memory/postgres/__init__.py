"""The journal, search and memory of several machines in one PostgreSQL database."""
