"""Responders try to resolve an incident: trusted playbooks first, then models."""
