"""Distills a draft skill from a verified run, with its literals turned into parameters."""
