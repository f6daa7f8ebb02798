"""Keeps what Hermes learns: session memory, recall, and publishing of skills."""
