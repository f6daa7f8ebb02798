"""Turns alerts into incidents: grouped, graded, and suppressed during maintenance."""
