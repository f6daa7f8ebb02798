"""Skills and facts between agents: packed, signed, carried, checked, and proven again."""
