"""Programs of people that run on events, and signed webhooks."""
