"""Traces as OpenTelemetry: spans that are derived from events, and their OTLP/JSON form."""
