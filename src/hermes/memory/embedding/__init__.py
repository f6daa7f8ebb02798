"""Turns texts into vectors offline, stores them, and finds the nearest ones."""
