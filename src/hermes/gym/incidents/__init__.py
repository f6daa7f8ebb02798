"""Makes drills from incidents: the known good state, what changed, and the checks."""
