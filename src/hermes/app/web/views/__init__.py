"""What pages and the API show of a home, as plain values: one module for each subject."""
