"""Adapters of the operators that read, write, count or order by positions."""
