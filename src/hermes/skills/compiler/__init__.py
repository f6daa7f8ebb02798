"""Python skills: drafted, looked over, proven in a sandbox, and then callable as tools."""
