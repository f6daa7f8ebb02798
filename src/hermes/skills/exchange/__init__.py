"""Exchange of skills and facts between agents: packed, signed, transferred, verified, tested."""
