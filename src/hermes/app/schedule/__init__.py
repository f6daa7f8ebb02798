"""The scheduler joined with the agent: how jobs are kept, run and delivered."""
