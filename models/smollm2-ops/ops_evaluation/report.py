"""Figures as Markdown tables, for the model card and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ops_tasks.tasks import KINDS

from ops_evaluation.shares import ALL, FIGURES

BY_KIND = ("exact", "valid", "literals")
SPLITS = {"values": "unseen values", "templates": "unseen tools and templates"}


def tables(figures: dict) -> str:
    """All tables of a ``figures.json``, whose keys are sorted: the order of what is shown comes from elsewhere."""
    names = figures["order"]
    parts = [_overall(figures, names)]
    parts += [_by_kind(figures, names, figure) for figure in BY_KIND]
    parts.append(_plain(figures, names))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _cell(share: dict) -> str:
    if share["share"] is None:
        return ""
    low, high = (f"{100 * share[end]:.0f}" for end in ("low", "high"))
    return f"{100 * share['share']:.1f} % ({low} to {high})"


def _overall(figures: dict, names: list[str]) -> str:
    splits = {split: figures["splits"][split] for split in SPLITS}
    head = ["over all kinds", *(f"{SPLITS[split]}: {name}" for split in splits for name in names), "n"]
    rows = []
    for key, figure in FIGURES.items():
        found = [splits[split]["figures"][name][ALL][key] for split in splits for name in names]
        counts = dict.fromkeys(share["n"] for share in found)
        rows.append([figure.title, *map(_cell, found), " and ".join(f"{count:,}" for count in counts)])
    return _table(head, rows)


def _by_kind(figures: dict, names: list[str], key: str) -> str:
    splits = {split: figures["splits"][split] for split in SPLITS}
    head = [FIGURES[key].title, *(f"{SPLITS[split]}: {name}" for split in splits for name in names), "n"]
    known = set().union(*(splits[split]["figures"][names[0]] for split in splits))
    rows = []
    for kind in [kind for kind in KINDS if kind in known]:
        found = [splits[split]["figures"][name][kind][key] for split in splits for name in names]
        counts = dict.fromkeys(share["n"] for share in found)
        if any(counts):
            rows.append([kind, *map(_cell, found), " and ".join(f"{count:,}" for count in counts)])
    return _table(head, rows)


def _plain(figures: dict, names: list[str]) -> str:
    head = ["perplexity on plain text", *names, *(f"{name} / {names[0]}" for name in names[1:]), "tokens"]
    rows = []
    for _name, text in sorted(figures["plain_text"].items(), reverse=True):
        found = text["models"]
        ratios = []
        for name in names[1:]:
            ratio = found[name]["ratio"]
            spread = "" if ratio["low"] is None else f" ({ratio['low']:.3f} to {ratio['high']:.3f})"
            ratios.append(f"{ratio['ratio']:.3f}{spread}")
        rows.append(
            [text["origin"], *(f"{found[name]['perplexity']:.2f}" for name in names), *ratios, f"{text['tokens']:,}"]
        )
    return _table(head, rows)
