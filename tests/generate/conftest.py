"""Protocols and comparisons of known content are made as for measures."""

from tests.measure.conftest import make_protocol, make_table

__all__ = ["make_protocol", "make_table"]
