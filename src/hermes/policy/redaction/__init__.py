"""Finds secrets in text and events, and replaces them."""
