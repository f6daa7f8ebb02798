"""The watch as a service of this host: systemd, supervisord or OpenRC."""
