"""Pieces that scenarios are built from: services in plain Python, histories, noise."""
