"""One root in words: both tokens, what became of its futures, and what decided. All texts in it are untrusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.components.branched import Root, RootTexts
from dashboard.components.cells import table
from dashboard.components.listed_rows import token_words
from dashboard.components.markup import Html, tag, visible
from dashboard.components.outcome_table import outcome_chip
from dashboard.components.root_list import probability
from drift_runs.charts.outcomes_by_arm import OUTCOME_WORDS
from drift_runs.measure.resampler import plural

SIDES = ("reference", "candidate")
MOST_LITERALS = 40
LONGEST = 200
ENDED_WORDS: Mapping[str, str] = {
    "structure": "where its structure closed",
    "turn": "with the end of its turn",
    "horizon": "at the horizon, cut",
    "context": "where the engine's context ran out, cut",
}


def tokens_sentence(root: Root, measured: Mapping[str, Any] | None, texts: RootTexts, names: Sequence[str]) -> Html:
    """Where the root is, and what both sides made of its position. ``names``: of reference and candidate."""
    outcome, row = root.outcome, root.row
    where = f"{outcome['range']}, {outcome['kind']}" if outcome["range"] else "outside every range"
    parts: list[Any] = [
        "Window ",
        tag("b", outcome["window"]),
        f", position {outcome['position']:,} ({where}). ",
    ]
    if not row:
        return tag("p", parts, "Its tokens are not stored.", cls="dr-say")
    theirs, ours = (
        tag("span", token_words(texts.token(row[f"{side}_top"]), row[f"{side}_top"]), cls="dr-token") for side in SIDES
    )
    found = measured or {}
    parts += [tag("b", names[0]), " gives ", theirs, f" {probability(row['reference_p1'])}"]
    if found.get("reference_margin") is not None:
        parts.append(f", {found['reference_margin']:.4f} more than its second choice (margin)")
    if row["candidate_top"] == row["reference_top"]:
        same = f" gives the same token {probability(row['candidate_p1'])}: no flip here."
        parts += [". ", tag("b", names[1]), same]
        return tag("p", parts, cls="dr-say")
    if found.get("p_of_candidate_top") is not None:
        parts += [", and ", ours, f" {probability(found['p_of_candidate_top'])}"]
    parts += [". ", tag("b", names[1]), " would write ", ours, f", which it gives {probability(row['candidate_p1'])}"]
    if found.get("q_of_reference_top") is not None:
        parts += [", and ", theirs, f" {probability(found['q_of_reference_top'])}"]
    parts.append(f". Reference's band: {root.band}." if root.band else ".")
    return tag("p", parts, cls="dr-say")


def judgement(root: Root, names: Sequence[str]) -> Html:
    """The outcome, the rule that decided, and what it was decided from."""
    outcome, evidence = root.outcome, root.evidence
    said = OUTCOME_WORDS.get(outcome["outcome"], "")
    lines = [
        [outcome_chip(outcome["outcome"]), f" {said}. Decided by: ", tag("b", outcome["rule"]), "."],
        *([_structure(outcome, evidence)] if outcome["structure"] else []),
        *_faults(evidence, names),
        [
            f"{names[0]} wrote {plural(outcome['reference_tokens'], 'token')} and ended "
            f"{_ended(outcome['reference_ended'])}; {names[1]} wrote {outcome['candidate_tokens']:,} and ended "
            f"{_ended(outcome['candidate_ended'])}."
        ],
        _resync(outcome),
        *_literals(evidence, names),
        *_copied(evidence, names),
        *_propagated(evidence),
        *_loops(evidence, names),
    ]
    if not evidence:
        lines.append(["The evidence cannot be read from what is stored."])
    return tag("ul", [tag("li", line) for line in lines], cls="dr-say", data_outcome=outcome["outcome"])


def texts_table(root: Root, names: Sequence[str]) -> Html:
    """Both futures as text, where their tokens are not stored; the equal beginning is dimmed."""
    left, right = (root.outcome[f"{side}_text"] for side in SIDES)
    equal = next(
        (at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )
    cells = [
        tag(
            "td",
            tag("span", visible(words[:equal]), cls="dr-same") if equal else None,
            visible(words[equal:]) or (None if equal else "nothing"),
            cls="dr-text",
            data_side=side,
        )
        for side, words in zip(SIDES, (left, right), strict=True)
    ]
    head = [tag("th", name, scope="col") for name in names]
    return table("The equal beginning is dimmed.", head, [tag("tr", cells)], label="Both futures as text")


def _ended(word: str) -> str:
    return ENDED_WORDS.get(word, word)


def _structure(outcome: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[Any]:
    language = (evidence.get("structure") or {}).get("language") or ""
    return [f"At the root a structure was open: {outcome['structure']}{f', {visible(language)}' if language else ''}."]


def _faults(evidence: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    found = []
    for side, name in zip(SIDES, names, strict=True):
        fault = (evidence.get("faults") or {}).get(side)
        if fault:
            turn = f" in turn {fault['turn'] + 1}" if fault.get("turn") else ""
            found.append([tag("b", name), f"{turn}: {fault['kind']}: ", _quoted(fault["why"]), "."])
    return found


def _resync(outcome: Mapping[str, Any]) -> list[Any]:
    if outcome["resync_reference"] is None or outcome["resync_candidate"] is None:
        return ["The streams do not run together again."]
    return [
        f"The streams run together again after {plural(outcome['resync_reference'], 'token')} of the reference's "
        f"future and {outcome['resync_candidate']:,} of the candidate's."
    ]


def _literals(evidence: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    """What literals only one side has: numbers, paths, quoted texts."""
    literals = evidence.get("literals") or {}
    counts = [Counter(literals.get(side) or ()) for side in SIDES]
    place = "before they run together" if literals.get("before") == "resync" else "in the whole futures"
    if not any(counts):
        return []
    if counts[0] == counts[1]:
        return [[f"Both hold the same {counts[0].total():,} literals {place}."]]
    found = []
    for name, one, other in ((names[0], counts[0], counts[1]), (names[1], counts[1], counts[0])):
        if alone := list((one - other).items()):
            shown = [
                part
                for text, number in alone[:MOST_LITERALS]
                for part in (_quoted(text), f" ×{number:,}, " if number > 1 else ", ")
            ]
            rest = len(alone) - MOST_LITERALS
            more = f"and {rest:,} more of {len(alone):,}." if rest > 0 else ""
            if not more:
                shown[-1] = shown[-1].removesuffix(", ") + "."
            found.append([f"Literals {place} that only ", tag("b", name), " has: ", shown, more])
    return found


def _copied(evidence: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    missing = evidence.get("not_copied")
    if not missing:
        return []
    words: list[Any] = [tag("b", names[0]), " wrote the literal ", _quoted(missing["reference"])]
    words.append(", which stands in the text before; " if missing.get("in_history") else "; ")
    if missing.get("candidate") is None:
        return [[*words, tag("b", names[1]), " has no literal in its place."]]
    words += [tag("b", names[1]), " wrote ", _quoted(missing["candidate"]), " in its place"]
    changed = [
        [_quoted(piece[1]) if piece[1] else "nothing", " became ", _quoted(piece[2]) if piece[2] else "nothing", " "]
        for piece in missing.get("letters") or ()
        if len(piece) == 3 and piece[1] != piece[2]
    ]
    return [[*words, *([": ", changed] if changed else ["."])]]


def _propagated(evidence: Mapping[str, Any]) -> list[list[Any]]:
    spread = evidence.get("propagated")
    if not spread:
        return []
    values = [part for value in spread.get("values") or () for part in (_quoted(str(value)), " ")]
    calls, literals = spread.get("calls") or 0, spread.get("literals") or 0
    carried = "not carried on"
    if calls or literals:
        carried = f"carried on by {plural(calls, 'later call')} and {plural(literals, 'later literal')}"
    return [["Wrong values: ", values, carried, "."]] if values else []


def _loops(evidence: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    found = []
    for side, name in zip(SIDES, names, strict=True):
        loop = (evidence.get("loops") or {}).get(side) or {}
        if loop.get("is_loop"):
            period = f", with a period of {loop['period']:,} tokens" if loop.get("period") else ""
            found.append([tag("b", name), f" repeats itself{period}."])
    return found


def _quoted(words: str) -> Html:
    """A piece of a model's text, everything in it to be seen; a long one is cut, and says so."""
    shown = visible(str(words))
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]}… ({len(shown):,} characters)"
    return tag("span", shown, cls="dr-token")
