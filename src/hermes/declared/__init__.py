"""States of a host: remembered, declared and live; what changed between them, and its revert."""
