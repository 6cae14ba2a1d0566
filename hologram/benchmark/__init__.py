"""The benchmark matrix: what is measured (rows, models), how (timing), what comes of it (report), how that is shown.

`hologram bench` is its command; `bench/` measures the same beside other libraries. See docs/benchmarks.md.
"""
