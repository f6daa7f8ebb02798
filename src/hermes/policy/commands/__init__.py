"""Reads shell text as bash would: words, expansions, statements, and the calls they make."""
