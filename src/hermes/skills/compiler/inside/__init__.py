"""What is sent into the sandbox: standard library only, any Python 3."""
