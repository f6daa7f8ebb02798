"""Episodes, batches and trajectories for training models."""
