"""The agent loop: prompt, model, tools, until done; subagents; compression."""
