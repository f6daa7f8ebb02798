"""Is anything wrong at all? Looks at the whole host, and what they come to."""
