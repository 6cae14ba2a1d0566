"""Graphs of operations as few kernels: which share one, what each computes, where scratch memory lies."""
