"""Reads what the platforms deliver into messages, one file a platform."""
