"""The format of a skill folder: read tolerantly, written strictly, checked with line numbers."""
