"""From a verified run to a draft: what mattered, with its literals made parameters."""
