"""Programs and tiles as WGSL."""
