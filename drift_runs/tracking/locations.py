"""Where the artifacts of runs are that an index has seen: so that reading one needs neither MLflow nor its import."""

from __future__ import annotations

from collections.abc import Mapping

_known: dict[str, Mapping[str, str]] = {}


def remember(uri: str, found: Mapping[str, str]) -> None:
    """Note the locations of a store's runs, by run id, in place of those noted before. They never change in MLflow."""
    _known[uri] = found


def known(uri: str, run_id: str) -> str | None:
    """Address of a run's artifacts; None when no index has seen the run in this process."""
    return _known.get(uri, {}).get(run_id)
