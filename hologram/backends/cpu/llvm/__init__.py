"""Atlas programs as LLVM IR: loops, lanes, instructions."""
