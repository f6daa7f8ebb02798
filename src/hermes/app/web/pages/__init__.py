"""What the pages of the dashboard show and do, read from the journal."""
