"""The canonical form of programs: what they compute, however they were written."""
