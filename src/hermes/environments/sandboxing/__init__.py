"""Opens sandboxes and starts confined commands, in the process of Hermes.

The programs that it starts are in `confinement`; they use the standard library only.
"""
