"""The one place that knows everyone: turns settings into a working house."""
