"""Finds the effects of a tool call, which the rules match and the kernel enforces."""
