"""What is measured and against what. ``python -m benchmarks`` runs all; names after it run some."""
