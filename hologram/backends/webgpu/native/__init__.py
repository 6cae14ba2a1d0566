"""wgpu-native through its C interface, and what its adapters can do."""
