"""Lifecycle of a skill: draft, compiled, validated, trusted, retired; steps need evidence."""
