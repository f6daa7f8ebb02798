"""Runs of the journal as examples to train on."""
