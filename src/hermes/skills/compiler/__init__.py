"""Python skills: drafted, checked, tested in a sandbox, and then callable as tools."""
