"""Models at work on an incident: looking side by side, judging, mending."""
