"""MCP servers of a home: pinned, reviewed by a person, logged in to, started."""
