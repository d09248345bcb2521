"""Engines: what turns token ids into logits. Each is a module of its own behind the protocol in ``base``."""
