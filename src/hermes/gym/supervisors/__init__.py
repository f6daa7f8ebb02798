"""Hosts of a box whose units run under another supervisor than the gym's own systemctl."""
