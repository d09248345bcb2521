"""HTML that cannot be injected into: pages and reports build theirs alike, so it is defined with the report."""

from __future__ import annotations

from drift_runs.report.markup import Html, join, tag, text, visible

__all__ = ["Html", "join", "tag", "text", "visible"]
