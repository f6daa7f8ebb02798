"""Recognizes actions that repeat what an untrusted text said."""
