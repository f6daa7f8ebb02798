"""What Hermes keeps of its work: session memory, recall and the exchange of skills."""
