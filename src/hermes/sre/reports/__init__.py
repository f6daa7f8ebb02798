"""Reports read from the journal: the incident report, its timeline, times and statistics."""
