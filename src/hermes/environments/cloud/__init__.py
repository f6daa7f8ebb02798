"""Environments that only an SDK reaches: short programs are sent in, each with one answer."""
