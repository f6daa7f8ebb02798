"""Matrix, by the client-server API, in unencrypted rooms."""
