"""All that an operator may set; the sole reader of the process environment."""
