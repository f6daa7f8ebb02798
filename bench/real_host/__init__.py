"""The parts of bench/real_host.py: hosts in namespaces, outages, and checks of what is reported."""
