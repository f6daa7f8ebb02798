"""Telegram, by the Bot API with long polling."""
