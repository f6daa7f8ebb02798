"""Finds the passages that answer a question: text first, vectors as a second opinion."""
