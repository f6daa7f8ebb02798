"""The gateway and its chat channels: which are configured, set up and tested."""
