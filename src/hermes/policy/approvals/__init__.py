"""Approval requests, the answers to them, and the grants that they lead to."""
