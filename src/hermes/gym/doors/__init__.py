"""The same episodes for those who train: over HTTP, and for the trainers' own libraries."""
