"""The channel Telegram."""
