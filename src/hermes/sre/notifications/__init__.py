"""Notifications to people: composed from the event stream and retried until every sink has them."""
