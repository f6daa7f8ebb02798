"""Checks that are learned from the behaviour of healthy services."""
