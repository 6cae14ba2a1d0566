"""`python -m hologram` is the command `hologram`."""

from hologram.cli import main

main()
