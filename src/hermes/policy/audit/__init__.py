"""Signed checkpoints over the journal, their verification, and the audit log as people read it."""
