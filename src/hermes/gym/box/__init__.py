"""The hosts of the gym in boxes: on this machine or in containers, as environments of the agent."""
