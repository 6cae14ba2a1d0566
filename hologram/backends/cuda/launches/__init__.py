"""How the CUDA backend launches kernels: told where operands lie, as graphs, with maps of tensors."""
