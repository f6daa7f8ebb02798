"""Chromium over its debugging pipe: pages, snapshots with references, and checked addresses."""
