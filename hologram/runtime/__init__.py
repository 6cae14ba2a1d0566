"""The runtime: executors, buffers and their memory; all mutable state lives here."""
