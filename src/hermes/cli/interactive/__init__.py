"""The chat a person sits in front of. Loaded only then: a one-shot question pays for none of it."""
