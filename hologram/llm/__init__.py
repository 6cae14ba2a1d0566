"""Language models from GGUF files, on hologram alone."""
