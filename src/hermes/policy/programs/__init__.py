"""Finds the effects of single programs from their arguments, by a table or a function."""
