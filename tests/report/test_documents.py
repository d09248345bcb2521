"""The files themselves: what they hold, and that no text in them is anything but text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from drift_runs.report import html, markdown
from drift_runs.report.content import Content
from drift_runs.report.fields import report_name, table_csv, to_csv
from drift_runs.report.grid import Grid, Row, Section, words
from drift_runs.report.markdown import escaped
from tests.ui.synthetic import HOSTILE_TITLE

HOSTILE = (
    '</table><script>alert("x")</script> ![i](http://example.invalid/i.png) \u202e\x1b[31m \U0001f642 ' + "a" * 10_000
)


class Tags(HTMLParser):
    """Every element with its attributes, and the texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile(content: Content) -> tuple[Section, ...]:
    grid = Grid(name="g", title=HOSTILE, head=(HOSTILE,), rows=(Row(cells=(words(HOSTILE, HOSTILE),), arm=HOSTILE),))
    return (Section(key="one", title=HOSTILE, says=(HOSTILE,), grids=(grid,)),)


def test_the_page_holds_no_script_and_asks_for_nothing(page: str) -> None:
    tags = Tags(page)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & {name for name, _ in tags.found}
    for _, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", page)
    (policy,) = [found["content"] for name, found in tags.found if found.get("http-equiv")]
    assert policy is not None and policy.startswith("default-src 'none';")


def test_ids_of_the_page_differ_and_links_lead_to_sections(page: str) -> None:
    tags = Tags(page)
    ids = [found["id"] for _, found in tags.found if "id" in found]
    assert len(ids) == len(set(ids))
    assert {found["href"] for name, found in tags.found if name == "a"} <= {f"#{name}" for name in ids}


def test_charts_are_in_the_page(page: str) -> None:
    charts = [found["data-chart"] for name, found in Tags(page).found if name == "figure"]
    assert charts == ["divergence-by-arm", "flips-by-arm", "range-kinds-with", "range-kinds-without"]


def test_an_arm_stands_once_beside_its_rows_and_no_cell_is_lost(content: Content) -> None:
    rows = (
        Row(cells=(words("a"), words("with"), words("1")), arm="a"),
        Row(cells=(words(""), words("without"), words("2")), arm="a"),
        Row(cells=(words("b"), words("with"), words("3")), arm="b"),
        Row(cells=(words("b"), words("without"), words("4")), arm="b"),
        Row(cells=(words(""), words("of none"), words("5"))),
    )
    grid = Grid(name="g", title="g", head=("arm", "set", "x"), rows=rows)
    tags = Tags(html.document(content, (Section(key="one", title="one", grids=(grid,)),), made=""))
    leads = [found.get("rowspan") for name, found in tags.found if name == "th" and found.get("scope") == "row"]
    assert leads == ["2", None, None, None]
    assert [name for name, _ in tags.found].count("td") == 2 * len(rows)


def test_a_hostile_title_of_an_arm_is_text(page: str) -> None:
    assert HOSTILE_TITLE in "".join(Tags(page).text)


def test_hostile_texts_are_shown_and_do_nothing(content: Content) -> None:
    evil = replace(content, campaign=replace(content.campaign, title=HOSTILE, protocol_name=HOSTILE))
    whole = html.document(evil, hostile(evil), made=HOSTILE)
    tags = Tags(whole)
    assert "script" not in {name for name, _ in tags.found}
    assert "\u202e" not in whole and "\x1b" not in whole
    assert "\\u202e" in "".join(tags.text) and "\U0001f642" in "".join(tags.text)
    (row,) = [found for name, found in tags.found if name == "tr" and "data-arm" in found]
    assert row["data-arm"] == HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\u001b")


def test_half_a_character_does_not_end_a_report(content: Content) -> None:
    grid = Grid(name="g", title="t", head=("h",), rows=(Row(cells=(words("\ud800"),)),))
    html.document(content, (Section(key="k", title="t", grids=(grid,)),), made="").encode()


def test_markdown_shows_hostile_text_as_it_stands(content: Content) -> None:
    found = markdown.document(content, hostile(content), made=HOSTILE)
    assert not re.search(r"(?<!\\)<", found) and not re.search(r"(?<!\\)!\[|(?<!\\)\]\(", found)
    assert "http://" not in found and "\u202e" not in found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b", "a \\| b"),
        ("- a", "\\- a"),
        ("12. a", "12\\. a"),
        ("3.11", "3.11"),
        ("2026-11-30", "2026-11-30"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_is_escaped_where_it_would_mean_something(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_markdown_has_every_table(content: Content, sections: tuple[Section, ...]) -> None:
    found = markdown.document(content, sections, made="")
    for section in sections:
        assert f"## {escaped(section.title)}\n" in found
        for grid in section.grids:
            assert found.count(f"### {escaped(grid.title)}\n") >= 1


def test_csv_keeps_all_digits_and_no_formula() -> None:
    rows = [{"a": 0.1 + 0.2, "b": "=1+1", "c": None, "d": 'x,"y"', "e": b"\xff"}]
    (found,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert float(found["a"]) == 0.1 + 0.2
    assert (found["b"], found["c"], found["d"], found["e"]) == ("'=1+1", "", 'x,"y"', "ff")


def test_csv_of_a_table_without_a_row_has_its_header() -> None:
    assert table_csv(pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string())})) == "a,b\n"


def test_a_files_name_is_safe(content: Content) -> None:
    evil = replace(content.campaign, protocol_name="../../etc/passwd\x00 " + "a" * 300)
    name = report_name(evil)
    assert "/" not in name and len(name) <= 100 and re.fullmatch(r"[A-Za-z0-9._-]+", name)
