"""The web: search providers, and the text of pages.

Only this package imports trafilatura, lxml and pypdf, each with the first page that needs it.
"""
