"""Joins the skill library, its lifecycle, review and exchange to the settings of a home."""
