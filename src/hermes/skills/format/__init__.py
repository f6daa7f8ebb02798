"""A skill as a folder: read leniently, written strictly, looked over with line numbers."""
