"""Infrastructure without domain knowledge that all packages share: YAML documents with positions,
HTTP, atomic files and locks, durations, error groups. Imports no other package of Hermes."""
