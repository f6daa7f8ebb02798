"""Chat platforms, one folder each."""
