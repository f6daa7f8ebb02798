"""Skills: library, playbooks, compiler, lifecycle, exchange between homes, scanner."""
