"""Skills of public repositories and of hubs: where they come from, and what was installed."""
