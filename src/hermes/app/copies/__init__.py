"""Copies of a host: the checks that run there, and fixes that are tried there first."""
