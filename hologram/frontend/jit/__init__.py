"""hg.jit: a function of Tensors, traced into a graph, compiled, and replayed."""
