"""Places elsewhere that a client program reaches: one shell session at the far end of a line."""
