"""Memory of an executor: pools, blocks, buffers and views of them."""
