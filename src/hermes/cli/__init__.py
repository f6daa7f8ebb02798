"""The `hermes` command: one file a subcommand; nothing but words in and out."""
