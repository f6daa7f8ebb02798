"""Many prompts side by side, each kept as an example; a crash loses at most what was under way."""
