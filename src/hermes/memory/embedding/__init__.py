"""Turns texts into vectors offline, keeps them, and finds the nearest ones."""
