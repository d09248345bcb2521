"""Weight files: what they hold, where the demo's model comes from, and how its variants are made."""
