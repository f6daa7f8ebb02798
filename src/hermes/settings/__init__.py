"""All that an operator may set; the sole reader of the process environment.

Each room declares its own settings beside the code that uses them; `schema` gathers them, `load`
fills them from defaults, config.yaml, .env, the process environment and the command line.
"""
