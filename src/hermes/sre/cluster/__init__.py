"""A Kubernetes cluster in an investigation: fixed read-only queries, faults, checks and events."""
