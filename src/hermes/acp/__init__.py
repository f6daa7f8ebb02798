"""Editors: conversations over the Agent Client Protocol (ACP), on standard input and output."""
