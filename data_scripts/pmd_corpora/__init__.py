"""Scripts that make a corpus directory from text somebody already has on their machine; see README.md here."""
