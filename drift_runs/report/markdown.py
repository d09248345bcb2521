"""A summary in Markdown: every section's sentences and tables, without the charts.

What came from a file or a person is escaped: Markdown would take a title for a link, a picture or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from drift_runs.report.content import Content
from drift_runs.report.grid import Cell, Grid, Section
from drift_runs.report.markup import seen

_NEEDED = frozenset("\\`*_[]<>|~#&$")


def document(content: Content, sections: Sequence[Section], *, made: str) -> str:
    """The file's text. ``made``: when and by what it was made."""
    campaign = content.campaign
    lines = [
        f"# {escaped(campaign.title or campaign.protocol_name)}",
        "",
        f"{escaped(campaign.protocol_name)} version {campaign.protocol_version}, digest "
        f"`{campaign.protocol_sha256}`{', draft' if campaign.draft else ', frozen'}",
        "",
    ]
    for section in sections:
        lines += [f"## {escaped(section.title)}", ""]
        for sentence in section.says:
            lines += [escaped(sentence), ""]
        for grid in section.grids:
            lines += [f"### {escaped(grid.title)}", ""]
            if grid.says:
                lines += [escaped(grid.says), ""]
            lines += [*_table(grid), ""]
    return "\n".join([*lines, escaped(made), ""])


def _table(grid: Grid) -> list[str]:
    head = "| " + " | ".join(escaped(word) for word in grid.head) + " |"
    rule = "|" + "|".join(" --- " for _ in grid.head) + "|"
    rows = ["| " + " | ".join(_cell(cell) for cell in row.cells) + " |" for row in grid.rows]
    return [head, rule, *rows]


def _cell(cell: Cell) -> str:
    small = "; ".join(cell.small)
    return escaped(f"{cell.text} ({small})" if small and cell.text else cell.text or small)


def escaped(text: str) -> str:
    """Text that Markdown shows as it stands: on one line, with nothing in it that is markup."""
    line = " ".join(seen(text).split())
    line = "".join(f"\\{mark}" if mark in _NEEDED else mark for mark in line)
    # An address would become a link by itself, and a line could begin a list or a rule.
    line = re.sub(r"(?i)\b(https?|ftp|mailto|www)([:.])", r"\1\\\2", line)
    return re.sub(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[-+=]))(.)", r"\1\\\2", line)
