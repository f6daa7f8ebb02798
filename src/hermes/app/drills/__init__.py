"""Drills and the demo: the production agent in a broken box of the gym."""
