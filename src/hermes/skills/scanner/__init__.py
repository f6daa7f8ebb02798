"""What a foreign skill would do that it does not say: read first, then run among canaries."""
