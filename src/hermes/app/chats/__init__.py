"""Conversations with people through chat channels."""
