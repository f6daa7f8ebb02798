"""Mattermost, by its REST API and its WebSocket."""
