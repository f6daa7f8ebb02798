"""Machines: alert webhooks, OpenAI-compatible API, metrics, dashboard."""
