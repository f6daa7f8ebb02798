"""States and changes of a host, the search for a cause among them, and reverts."""
