"""Rows of keys put in order by compiled code of our own."""
