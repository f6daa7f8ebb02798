"""Checks of Python code in a foreign skill; the code is parsed and never run."""
