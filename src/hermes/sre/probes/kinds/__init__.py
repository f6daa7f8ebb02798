"""The kinds of looks, each a small shell text that only reads.

It prints `value=NUMBER words` and, where the next look should go on from this one, `keep=TEXT`.
Exit code 0 is fine, 1 is not, 3 means that it could not be asked.
"""
