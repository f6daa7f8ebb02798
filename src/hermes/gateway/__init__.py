"""People: chat channels, pairing, notices, approvals by chat."""
