"""Judge a model on the tasks: what it would answer, and how it reads plain text."""
