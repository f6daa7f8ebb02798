"""Systems around the host that Hermes asks: servers of the Model Context Protocol."""
