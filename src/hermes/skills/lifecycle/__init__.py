"""A skill's life: draft, compiled, validated, trusted, retired; each step rests on evidence."""
