"""The channel Slack."""
