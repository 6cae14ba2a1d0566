"""Programs that compute what a tuned kernel does, found by their canonical form."""
