"""Incidents as people and responders handle them, from an answer to an approval to the lesson."""
