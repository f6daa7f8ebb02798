"""Opens sandboxes and starts confined commands: the side of Hermes. The other side, standard library only, is `confinement`."""
