"""What may be done: action, rules, approvals, exceptions, redaction."""
