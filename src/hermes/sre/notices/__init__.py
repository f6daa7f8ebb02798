"""Tells people: what is owed to them is read off the stream, kept until every sink has it."""
