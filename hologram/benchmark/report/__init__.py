"""What comes of measuring: its records, and how they are shown and compared."""
