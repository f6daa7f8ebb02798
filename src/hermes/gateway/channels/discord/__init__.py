"""The channel Discord."""
