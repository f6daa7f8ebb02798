"""The journal of a home as people handle it: search, audit, backup, upkeep, traces."""
