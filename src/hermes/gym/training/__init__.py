"""Episodes, batches and trajectories for those who train models."""
