"""The kinds of probes, each a small shell script that only reads.

It prints `value=NUMBER text` and, if the next run continues from this one, `keep=TEXT`.
Exit code 0 is fine, 1 is a failure, 3 means that it could not be run.
"""
