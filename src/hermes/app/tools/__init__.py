"""The tools of an agent with everything they need: browsers, speech, models."""
