"""Probes: periodic checks that are discovered, stored as data and run on a schedule."""
