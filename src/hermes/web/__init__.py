"""HTTP for other programs: alert webhooks, health and metrics."""
