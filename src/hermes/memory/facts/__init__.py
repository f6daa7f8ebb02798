"""Long-term memory: facts with their sources, projected from the journal and rebuildable."""
