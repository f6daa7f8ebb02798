"""Engines that turn speech into text and text into speech, and the formats of recordings."""
