"""What `hologram demo` runs: a photograph filtered and a classifier trained, by hologram and by NumPy alike."""
