"""Functions of NumPy's that are a few operations, under NumPy's names and arguments: `hg.median(x)`, `np.median(x)`.

A function takes tensors, arrays and numbers. It runs on the device of the first tensor among them, and is traced and
differentiated as the operations are that it is made of, unless it says otherwise.
"""
