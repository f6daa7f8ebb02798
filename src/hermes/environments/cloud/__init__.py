"""Environments that are reached through an SDK, by short remote calls."""
