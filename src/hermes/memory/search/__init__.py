"""Full-text search and recall over all sessions: an index built from the journal."""
