"""Turns events, answers and tool calls into text for a terminal."""
