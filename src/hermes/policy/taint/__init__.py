"""Recognizes actions that contain words from untrusted text."""
