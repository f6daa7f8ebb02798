"""A host in a box: real processes, sockets and files that nothing outside can be hurt by."""
