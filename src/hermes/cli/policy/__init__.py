"""The `hermes policy` commands."""
