"""Chat channels, one folder a platform: each translates between messages and the platform."""
