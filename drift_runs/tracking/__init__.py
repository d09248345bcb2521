"""Campaigns and comparisons in MLflow."""
