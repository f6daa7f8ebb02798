"""Commands about states of the host and its changes."""
