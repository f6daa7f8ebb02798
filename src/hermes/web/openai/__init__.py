"""The API of OpenAI: its clients can talk to Hermes unchanged."""
