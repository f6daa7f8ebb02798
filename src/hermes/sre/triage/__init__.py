"""What is heard becomes incidents: once, together, graded, and not while people work on it."""
