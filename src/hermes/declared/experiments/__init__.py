"""Finds the change that caused a fault by experiments on copies of a host."""
