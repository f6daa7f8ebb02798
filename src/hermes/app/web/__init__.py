"""Wiring of the API: its routes get the agent, the journal and the actions of people."""
