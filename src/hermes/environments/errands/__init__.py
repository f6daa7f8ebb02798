"""Places that only an SDK reaches: short programs sent in, each with an answer."""
