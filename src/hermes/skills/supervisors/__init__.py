"""Supervisors of services: which units they have, and the commands that act on them."""
