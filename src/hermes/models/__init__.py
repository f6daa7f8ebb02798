"""Language models, one file a wire dialect."""
