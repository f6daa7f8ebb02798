"""Every word of every session, findable: a projection of the journal in a file of its own."""
