"""What happened, told from the journal: the report, the timeline, the times, the statistics."""
