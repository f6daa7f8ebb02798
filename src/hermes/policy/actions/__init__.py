"""From a tool call to the effects it would have: what the rules match on and what the kernel must allow."""
