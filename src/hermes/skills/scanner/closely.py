"""Looks at one file that are held against what the skill is for."""

from collections.abc import Iterator

from hermes.skills.scanner.backdoors import look_for_backdoors
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.package_sources import look_at_sources
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.spelled import look_at_spelling
from hermes.skills.scanner.weak_secrets import look_at_weak_secrets


def look_closely(path: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    yield from look_at_sources(path, text, purpose)
    yield from look_for_backdoors(path, text)
    yield from look_at_spelling(path, text)
    yield from look_at_weak_secrets(path, text, purpose)
