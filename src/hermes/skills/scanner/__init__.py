"""What a foreign skill would do that it does not say: read without running, then run among canaries."""
