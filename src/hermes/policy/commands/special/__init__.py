"""Programs that a table cannot describe: their words are a language of their own."""
