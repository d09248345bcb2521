"""drift-runs: what a quant, a derivative, a KV-cache precision, an engine or a GPU does to what a model generates."""

__version__ = "0.1.0"
