"""One prompt, both rollouts beside each other: the equal beginning dimmed, the first difference marked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dashboard.components.cells import table
from dashboard.components.listed_rows import token_words
from dashboard.components.markup import Html, tag, visible
from drift_runs.measure.resampler import plural

AROUND = 4
"""Steps on each side of the first difference in the table of tokens."""
DIM = "opacity:0.68"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both rollouts of one prompt, as rows of schema ``ROLLOUTS``."""

    prompt: str
    left: Mapping[str, Any]
    """The reference's."""
    right: Mapping[str, Any]

    @property
    def column(self) -> str:
        """What tokens are compared by: ids where both sides give them, else texts."""
        return "token_ids" if self.left["token_ids"] is not None and self.right["token_ids"] is not None else "tokens"

    @property
    def equal(self) -> int:
        """Tokens of the equal beginning."""
        sides = zip(self.left[self.column], self.right[self.column], strict=False)
        for step, (one, other) in enumerate(sides):
            if one != other:
                return step
        return min(len(self.left["tokens"]), len(self.right["tokens"]))

    @property
    def exact(self) -> bool:
        return self.equal == len(self.left["tokens"]) == len(self.right["tokens"])

    @property
    def label(self) -> str:
        """The prompt and where it parts."""
        return f"{visible(self.prompt)[:80]}: " + ("equal in full" if self.exact else f"parts at step {self.equal}")


def pairs_of(reference: pa.Table, arm: pa.Table, run: int = 0) -> dict[str, Pair]:
    """The prompts that both sides have, in the order of the arm's: a bounded run has fewer."""
    theirs = {row["prompt"]: row for row in reference.to_pylist() if row["run"] == run}
    return {
        row["prompt"]: Pair(prompt=row["prompt"], left=theirs[row["prompt"]], right=row)
        for row in arm.to_pylist()
        if row["run"] == run and row["prompt"] in theirs
    }


def pair_sentence(pair: Pair, *, reference: str, arm: str, ends: Collection[str]) -> list[object]:
    """What is seen, in words."""
    if pair.exact:
        return [f"Both write the same {len(pair.left['tokens']):,} tokens."]
    at = pair.equal
    alike = f"{plural(at, 'token')} {'is' if at == 1 else 'are'} equal at the start. "
    words: list[object] = [alike if at else "The very first token differs. "]
    for name, side in ((reference, pair.left), (arm, pair.right)):
        words += [tag("b", name), " "]
        if at >= len(side["tokens"]):
            words.append(f"has no token at step {at}")
        else:
            words += ["writes ", _token(side["tokens"][at], cls="dr-token"), _probability_words(side, at)]
        words.append(", " if name == reference else ".")
    stop = next((step for step, text in enumerate(pair.left["tokens"][:at]) if text in ends), None)
    if stop is not None:
        words.append(f" Both ended their turn at step {stop}, before they part: what differs is behind the answer.")
    return words


def pair_table(pair: Pair, *, reference: str, arm: str, ends: Collection[str]) -> Html:
    """Both texts. The region can be reached and scrolled by keyboard; each says its first difference to a reader."""
    head = [tag("th", f"{name}{' (reference)' if name == reference else ''}", scope="col") for name in (reference, arm)]
    cells = [
        tag("td", _text(side, pair.equal, kind, ends), cls="dr-text", tabindex="0", data_side=name)
        for name, side, kind in ((reference, pair.left, "dr-within"), (arm, pair.right, "dr-above"))
    ]
    caption = "Dimmed: equal from the start. Marked: the first difference. Line ends and other signs are shown."
    return table(
        caption, head, [tag("tr", cells, data_prompt=pair.prompt, data_equal=pair.equal)], label="Both rollouts"
    )


def steps_table(pair: Pair, *, reference: str, arm: str) -> Html:
    """The tokens around the first difference, with their probabilities."""
    last = max(len(pair.left["tokens"]), len(pair.right["tokens"]))
    shown = range(max(pair.equal - AROUND, 0), min(pair.equal + AROUND + 1, last))
    head = [tag("th", words, scope="col") for words in ("step", reference, "P", arm, "Q")]
    body = []
    for step in shown:
        cells = []
        for side in _sides(pair):
            cells += [
                tag("td", _at(side, step), cls="dr-token"),
                tag("td", _probability(side, step), cls="dr-num"),
            ]
        first = step == pair.equal
        mark = tag("span", "first difference", cls="dr-chip dr-above") if first and not pair.exact else None
        body.append(tag("tr", tag("th", f"{step} ", mark, scope="row"), cells, data_step=step))
    caption = (
        f"Steps {shown.start} to {shown.stop - 1} of {last:,}. P and Q: what each side gave its own token; behind the "
        "first difference the two texts differ, and so do the probabilities."
    )
    return table(caption, head, body, label="Tokens around the first difference")


def pair_csv(pair: Pair) -> list[dict[str, object]]:
    """Every step of both sides."""
    rows = []
    for step in range(max(len(pair.left["tokens"]), len(pair.right["tokens"]))):
        row: dict[str, object] = {"prompt": pair.prompt, "step": step}
        for name, side in (("reference", pair.left), ("arm", pair.right)):
            there = step < len(side["tokens"])
            row[f"{name}_token"] = side["tokens"][step] if there else None
            row[f"{name}_id"] = side["token_ids"][step] if there and side["token_ids"] is not None else None
            row[f"{name}_logprob"] = side["logprobs"][step] if there and side["logprobs"] is not None else None
        rows.append(row)
    return rows


def _sides(pair: Pair) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return pair.left, pair.right


def _text(side: Mapping[str, Any], equal: int, kind: str, ends: Collection[str]) -> list[object]:
    tokens: Sequence[str] = side["tokens"]
    parts: list[object] = [tag("span", _running(tokens[:equal], ends), style=DIM)] if equal else []
    if equal < len(tokens):
        parts.append(
            tag(
                "b",
                token_words(tokens[equal], None),
                cls=kind,
                tabindex="0",
                aria_label=f"first difference, step {equal}: {visible(tokens[equal], spaces=True)}",
            )
        )
        parts += _running(tokens[equal + 1 :], ends)
    return parts or [tag("span", "nothing", cls="dr-grey")]


def _running(tokens: Sequence[str], ends: Collection[str]) -> list[object]:
    """Tokens as running text: a line end is a sign and a new line, an end of turn a mark."""
    parts: list[object] = []
    for text in tokens:
        if text in ends:
            parts.append(tag("span", text, cls="dr-chip dr-plain", title="ends the turn"))
            continue
        for at, line in enumerate(text.split("\n")):
            parts += [visible("\n"), tag("br")] if at else []
            parts += [visible(line)] if line else []
    return parts


def _token(text: str, *, cls: str) -> Html:
    return tag("span", token_words(text, None), cls=cls)


def _at(side: Mapping[str, Any], step: int) -> str:
    return token_words(side["tokens"][step], None) if step < len(side["tokens"]) else "none"


def _logprob(side: Mapping[str, Any], step: int) -> float | None:
    if side["logprobs"] is None or step >= len(side["logprobs"]):
        return None
    return side["logprobs"][step]


def _probability(side: Mapping[str, Any], step: int) -> str:
    found = _logprob(side, step)
    return "not known" if found is None else f"{math.exp(found):.4f}"


def _probability_words(side: Mapping[str, Any], step: int) -> str:
    found = _logprob(side, step)
    return "" if found is None else f" (probability {math.exp(found):.3f})"
