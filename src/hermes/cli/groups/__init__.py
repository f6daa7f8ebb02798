"""Groups of commands: name, module and help of each, without the modules themselves."""
