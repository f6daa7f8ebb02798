"""Collectors: read the live state of a host, here or through a command runner."""
