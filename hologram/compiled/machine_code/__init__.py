"""Code for the host's processor: LLVM, what is kept of its work, and functions of Python made of it."""
