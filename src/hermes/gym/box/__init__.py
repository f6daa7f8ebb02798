"""Boxes: hosts with real processes, sockets and files, isolated from the real machine."""
