"""Providers that draw pictures."""
