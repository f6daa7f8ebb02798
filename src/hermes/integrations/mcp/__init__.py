"""Servers of the Model Context Protocol: what was reviewed, how they are reached, their tools.

Only this package imports the library `mcp`, and only when a server is spoken to: the tools of the
agent are made from the pins, which need neither a connection nor the library.
"""
