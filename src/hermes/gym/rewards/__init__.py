"""Scores what a responder did in an episode."""
