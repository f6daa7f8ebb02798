"""Decides what an agent may do: actions, rules, approvals, exceptions, audit, redaction."""
