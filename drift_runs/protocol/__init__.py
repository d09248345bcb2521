"""Frozen protocol files: the model of their content, loading with errors that name file and key, and the lock."""
