"""Services, servers and shell scripts that scenarios put on a host."""
