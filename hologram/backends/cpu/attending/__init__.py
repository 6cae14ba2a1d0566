"""Attention of few queries to many keys: one launch, which all threads share."""
