"""Processes on this machine: spawned, watched, logged, ended with all they started."""
