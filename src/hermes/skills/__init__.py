"""SKILL.md library, playbooks, compiler, exchange."""
