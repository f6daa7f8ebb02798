"""The loop: prompt, model, tools, until done; subagents; compression."""
