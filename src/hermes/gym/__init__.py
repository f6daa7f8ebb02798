"""The gym: incidents in isolated hosts, to test and train agents."""
