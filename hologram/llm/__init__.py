"""Language models from GGUF files, on `hg` alone: files, tokens, one description of a decoder, and who runs it."""
