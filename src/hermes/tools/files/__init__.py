"""Tools that read, search and change files in an environment."""
