"""What tests of weight files share with tests of engines."""

from __future__ import annotations

from tests.engines.conftest import tokens as tokens
