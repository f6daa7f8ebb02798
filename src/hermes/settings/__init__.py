"""All settings; the only package that reads the process environment.

Each package declares its own settings; `schema` collects them, and `load` fills them from defaults,
config.yaml, .env, the process environment and the command line.
"""
