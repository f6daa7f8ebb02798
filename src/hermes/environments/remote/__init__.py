"""Environments on other hosts that a client program reaches (ssh, docker, kubectl)."""
