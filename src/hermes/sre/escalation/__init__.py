"""Collects facts about a failing service for the people to whom its incident is escalated."""
