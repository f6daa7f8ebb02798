"""Boxes: hosts with real processes, sockets and files, isolated from the real machine.

The gym builds hosts in them; a copy of a host is one whose files are those of the host.
"""
