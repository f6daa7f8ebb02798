"""Policy documents: their schema, the compiled rules, and the verdict that they lead to."""
