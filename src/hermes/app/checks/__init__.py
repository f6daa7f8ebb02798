"""The checks of a host: declared and discovered probes, learned checks, health from both."""
