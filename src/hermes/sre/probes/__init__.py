"""Own probes: found by themselves, kept as data, asked on a rhythm."""
