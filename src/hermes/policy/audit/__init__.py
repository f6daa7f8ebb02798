"""Signs and verifies checkpoints over the journal, and renders the audit log."""
