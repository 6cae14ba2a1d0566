"""Every operation of hologram, each declared once."""
