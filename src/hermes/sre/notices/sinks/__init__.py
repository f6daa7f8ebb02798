"""The places that notices can go to today."""
