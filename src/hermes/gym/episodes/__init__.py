"""Plays one incident in a box: builds it, breaks it, runs a responder, and checks the result."""
