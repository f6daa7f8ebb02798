"""The chat: one question and its answer, or an interactive session."""
