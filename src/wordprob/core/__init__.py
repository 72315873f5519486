"""Pure steps from texts to surprisal: no torch, no files."""
