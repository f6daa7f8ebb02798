"""Signal, by a running `signal-cli daemon --http`."""
