"""Processes on this machine: starts, watches and ends them with their whole tree."""
