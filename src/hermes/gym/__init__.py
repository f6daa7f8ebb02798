"""Scenarios, episodes, rewards, trajectories, batches, training."""
