"""What was declared against what runs: drift, pre-merge checks."""
