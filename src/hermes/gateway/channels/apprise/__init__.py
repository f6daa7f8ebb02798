"""Apprise: more than a hundred services for notifications, which are only sent to."""
