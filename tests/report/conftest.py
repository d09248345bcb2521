"""A report of the invented campaign, read from a real store once."""

from __future__ import annotations

import pytest

from drift_runs.report import build, html
from drift_runs.report.content import Content, find_campaign, load_content
from drift_runs.report.grid import Section
from tests.ui.synthetic import InventedStore, shared_store


@pytest.fixture(scope="session")
def invented_store(tmp_path_factory: pytest.TempPathFactory) -> InventedStore:
    return shared_store(tmp_path_factory)


@pytest.fixture(scope="session")
def content(invented_store: InventedStore) -> Content:
    return load_content(invented_store.uri, find_campaign(invented_store.uri, "latest"))


@pytest.fixture(scope="session")
def sections(content: Content) -> tuple[Section, ...]:
    return build.sections(content)


@pytest.fixture(scope="session")
def page(content: Content, sections: tuple[Section, ...]) -> str:
    return html.document(content, sections, made="Made for a test.")
