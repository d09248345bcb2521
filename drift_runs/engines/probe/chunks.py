"""Do rows deep inside a long request stand where they belong?

A server evaluates a long prompt in chunks, and puts the rows of the chunks together again. At their borders rows were
lost, doubled and moved by one, in answers that look whole. Short cuts show nothing of it, so one long part of a window
is sent, and some of its rows are held against those that the same histories give by another route.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer, ProbeTask, Verdict
from drift_runs.engines.probe.asking import Asking, Refusal
from drift_runs.engines.probe.compared import entries_of, row_apart_nats
from drift_runs.engines.probe.limits import beside_tokens, by_plain_name, room_tokens

CHUNK_NAMES = (
    "max_num_batched_tokens",
    "chunked_prefill_size",
    "max_batch_prefill_tokens",
    "micro_batch",
    "n_ubatch",
    "ubatch_size",
    "ub",
    "n_batch",
    "prefill_step_size",
)
"""What engines call the tokens that they evaluate at once. Some have two sizes, a batch and its parts."""
TOKENS = 2_112
"""Sent at least where a size is said and there are as many: some engines have a second one, of up to 2,048."""
BEHIND_TOKENS = 64
"""Behind the border of a chunk."""
LARGEST_DEFAULT_TOKENS = 16_384
"""Of the chunks that servers take without an option, by the memory of the device: 2,048 to 8,192, or to this."""
MOST_TOKENS = LARGEST_DEFAULT_TOKENS + BEHIND_TOKENS
MOST_S = 20.0
"""All of it may take, by what a short request takes, and a third of the time that the probe has left."""
PILOT_TOKENS = 256
"""Of the short request. Shorter windows are sent without one."""
_ENTRIES = 20
_STEPS = 16
"""Requests that a history is built up by at most, where each position is one."""
_IN_PROCESS_ROWS = 64
"""Of an engine of this process: no list of rows is put together there, and its whole rows are sorted here."""
_DOUBLED = 8
"""Rows that are those before them and that are asked for again at most: a model may write one thing over and over."""
APART_NATS = 0.5
"""Between two answers for one row, in the mean of its entries. Other kernels and caches of 8 bits are apart by
hundredths; the row of the next position is so by nats."""

_AVOID = (
    "start the server so that the longest window is one chunk (vLLM: --max-num-batched-tokens, SGLang: "
    '--chunked-prefill-size, llama_server: -ub and -b), use path_shape = "decode", or shorten the windows in a new '
    "version of the protocol"
)
_DECLARE = (
    "start the server with a chunk whose border lies inside what is sent, and declare it in the arm's settings: "
    "server = { max-num-batched-tokens = 2048 } (vLLM), { chunked-prefill-size = 2048 } (SGLang), "
    "{ ub = 512 } (llama_server)"
)


class Long(NamedTuple):
    """What is sent."""

    window: str
    tokens: tuple[int, ...]
    longest: int
    """Tokens of the longest window."""
    chunks: tuple[int, ...]
    """Sizes that are said, ascending."""

    @property
    def borders(self) -> tuple[int, ...]:
        """First border of each size inside: the position whose row is the last of a chunk."""
        return tuple(size for size in self.chunks if size < len(self.tokens) - 1)

    @property
    def crosses(self) -> bool:
        """Whether nothing that the protocol sends meets a border that this does not."""
        if len(self.tokens) >= self.longest:
            return True
        return self.borders == self.chunks if self.chunks else len(self.tokens) >= MOST_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of the long request, by position."""

    entries: Mapping[int, Mapping[int, float]]

    @classmethod
    def of(cls, block: ListedBlock) -> Rows:
        return cls(entries={int(at): entries_of(block, row) for row, at in enumerate(block.positions)})

    def alone_nats(self, at: int) -> float:
        """How far a row lies from those beside it that are there; NaN where none is."""
        found = [
            row_apart_nats(self.entries[at], self.entries[other]) for other in (at - 1, at + 1) if other in self.entries
        ]
        return min(found, default=float("nan"))

    def doubled(self) -> list[int]:
        """Positions whose row is that of the position before to the last bit."""
        return [at for at in self.entries if at - 1 in self.entries and self.entries[at] == self.entries[at - 1]]

    def most_alone(self, positions: Iterable[int]) -> int | None:
        """The position whose row is least like those beside it."""
        found = [(alone, at) for at in positions if at in self.entries and (alone := self.alone_nats(at)) > 0]
        return max(found)[1] if found else None


def ask_chunks(asking: Asking) -> list[Answer]:
    verdict, evidence, way_round = _found(asking)
    return [
        Answer(
            question="chunks",
            title="Are rows deep inside a long request those of their own positions?",
            answer=verdict,
            evidence=evidence,
            # A slow engine is not asked, and what is not asked says nothing against it.
            needed=asking.task.needs.scoring and verdict == NO,
            way_round=way_round,
        )
    ]


class Found(NamedTuple):
    """What there is to say."""

    verdict: Verdict
    evidence: str
    way_round: str = _AVOID


def _found(asking: Asking) -> Found:
    if not asking.looked_at():
        return Found(OPEN, asking.no_rows())
    long = _fitted(asking, _longest(asking))
    if isinstance(long, Refusal):
        return _refused(long, "a short part of the longest window: ")
    stepwise = asking.task.path_shape == "decode" and not asking.in_process
    positions = (_steps if stepwise else _inside)(asking, long)
    block = asking.rows(long.tokens, positions, top_k=min(_ENTRIES, asking.top_k))
    sent = f"{len(long.tokens):,} of the {long.longest:,} tokens of window {long.window}{_said(long)}"
    if isinstance(block, Refusal):
        return _refused(block, f"{sent}: ")
    rows = Rows.of(block)
    asking.measured["chunks_tokens"] = float(len(long.tokens))
    how = "asked for alone" if stepwise or not _writes_what_it_scores(asking) else "written"
    largest, alone = 0.0, 0.0
    chosen = _chosen(rows, long)
    for at in chosen:
        other = _otherwise(asking, long, at, how)
        if isinstance(other, Refusal):
            return _refused(other, f"{sent}, position {at:,} {how}: ")
        apart, next_to = row_apart_nats(rows.entries[at], other), rows.alone_nats(at)
        largest, alone = np.nanmax([largest, apart]), np.nanmax([alone, next_to])
        asking.measured["chunks_largest_nats"] = float(largest)
        # A third of the way to the next row is what a coarse cache may do in other pieces; another row is further.
        if not apart <= max(APART_NATS, next_to / 3):
            place = _place(rows, other, at)
            apart_from = f"the row of position {at:,} is {apart:.3g} nats apart from the one {how}{place}"
            return Found(NO, f"{sent}: {apart_from}")
    evidence = (
        f"{sent}: {len(block.positions):,} rows came for {len(positions):,}; {len(chosen)} of them {how} too, up to "
        f"{largest:.3g} nats apart in the mean of a row, and the row beside one up to {alone:.3g}"
    )
    if alone <= 2 * APART_NATS:
        return Found(OPEN, f"{evidence}: too alike to tell one from the next")
    if largest > APART_NATS:
        return Found(OPEN, f"{evidence}: more than rounding, less than another row")
    return Found(YES, evidence) if long.crosses else Found(OPEN, f"{evidence}; {_uncrossed(long)}", _DECLARE)


def _uncrossed(long: Long) -> str:
    held = f"rows are held up to position {len(long.tokens) - 1:,}, and no border of a chunk is known to lie before it"
    if long.chunks:
        return held
    return f"{held}: the engine says no size, and servers take up to {LARGEST_DEFAULT_TOKENS:,} tokens at once unasked"


def _said(long: Long) -> str:
    return f", {' and '.join(f'{size:,}' for size in long.chunks)} at once" if long.chunks else ""


def _refused(refusal: Refusal, before: str) -> Found:
    return Found(OPEN, str(refusal)) if refusal.unasked else Found(NO, f"{before}{refusal}")


def _longest(asking: Asking) -> Long:
    """The part of the longest window that is worth sending: behind the last border that is known of, or may be one."""
    task, room = asking.task, room_tokens(asking) + 1 - beside_tokens(asking)
    window = max(task.windows, key=lambda window: window.positions[-1] if window.positions else 0)
    longest = window.positions[-1] + 1 if window.positions else len(window.tokens)
    chunks = _chunks(asking, task)
    behind = max([TOKENS, *(size + BEHIND_TOKENS for size in chunks)]) if chunks else MOST_TOKENS
    bound = min(behind, MOST_TOKENS, room)
    return Long(window.name, window.tokens[: min(longest, bound)], longest, chunks)


def _chunks(asking: Asking, task: ProbeTask) -> tuple[int, ...]:
    """Sizes of chunks that the engine says, or that it is declared to be started with."""
    said = asking.said()
    known = by_plain_name(dict(task.server)) | ({} if isinstance(said, Refusal) else by_plain_name(said))
    sizes = {int(known[name]) for name in CHUNK_NAMES if known.get(name, "").isdecimal()}
    return tuple(sorted(size for size in sizes if size > 1))


def _fitted(asking: Asking, long: Long) -> Long | Refusal:
    """Cut to what may be evaluated in the time, by what a short part of it takes."""
    if len(long.tokens) <= PILOT_TOKENS + 1:
        return long
    began = asking.seconds
    pilot = asking.rows(long.tokens[: PILOT_TOKENS + 1], [PILOT_TOKENS], top_k=1)
    if isinstance(pilot, Refusal):
        return pilot
    each_s = max(asking.seconds - began, 1e-9) / PILOT_TOKENS
    # The whole, the whole again for its last row, and each border: a history is evaluated once for each of them. Where
    # nothing is held of it, three rows around the end are so too.
    times = 2 + len(long.chunks) + 2 * (asking.task.cache_prompt is False)
    allowed = int(min(MOST_S, asking.left_s / 3) / each_s / times)
    return long._replace(tokens=long.tokens[: max(PILOT_TOKENS + 1, allowed)])


def _inside(asking: Asking, long: Long) -> list[int]:
    """All positions; in this process some, and those around borders and the end."""
    last = len(long.tokens) - 1
    if not asking.in_process or last <= _IN_PROCESS_ROWS:
        return list(range(1, last + 1))
    spread = np.linspace(1, last, _IN_PROCESS_ROWS // 2).astype(int).tolist()
    around = [at + near for at in (*long.borders, last) for near in range(-4, 5)]
    return sorted({at for at in (*spread, *around) if 1 <= at <= last})


def _steps(asking: Asking, long: Long) -> list[int]:
    """Few positions, each a request, between which less than a chunk is evaluated; those around borders and the end."""
    last = len(long.tokens) - 1
    around = {at + near for at in long.borders for near in (-1, 0, 1)} | {last - 2, last - 1, last}
    if asking.task.cache_prompt is False:  # each history is evaluated whole: there are no steps
        around = {last - 2, last - 1, last}
    else:
        step = max(min((*long.chunks, 512)) // 2, -(-last // _STEPS), 1)
        around |= set(range(step, last, step))
    return sorted(at for at in around if 1 <= at <= last)


def _writes_what_it_scores(asking: Asking) -> bool:
    """Whether a row of a short cut is the one that a token is written from: only then is what it writes a witness."""
    cut, block = asking.looked_at()[0]
    written = asking.write(cut.tokens[: cut.positions[-1]], 1)
    if isinstance(written, Refusal) or not written:
        return False
    told = dict(zip(written[0].top_ids, written[0].top_logprobs, strict=True))
    return row_apart_nats(entries_of(block, len(block.positions) - 1), told) <= APART_NATS


def _chosen(rows: Rows, long: Long) -> list[int]:
    """At a border, behind it, at the end, and where a row is there twice."""
    last = len(long.tokens) - 1
    found = [at + near for at in long.borders[:2] for near in (0, 1) if at + near in rows.entries]
    deep = rows.most_alone(range(max(1, last - 15), last))
    found += [last, *([] if deep is None else [deep]), *rows.doubled()[:_DOUBLED]]
    return sorted(set(found))


def _otherwise(asking: Asking, long: Long, at: int, how: str) -> Mapping[int, float] | Refusal:
    """The row of a position by another route."""
    if how == "written":
        written = asking.write(long.tokens[:at], 1)
        if isinstance(written, Refusal):
            return written
        if not written:
            return Refusal("nothing was written")
        return dict(zip(written[0].top_ids, written[0].top_logprobs, strict=True))
    block = asking.rows(long.tokens[: at + 1], [at], top_k=min(_ENTRIES, asking.top_k))
    return block if isinstance(block, Refusal) else entries_of(block, 0)


def _place(rows: Rows, other: Mapping[int, float], at: int) -> str:
    """Where the row that belongs there is instead."""
    near: Sequence[int] = [place for place in range(at - 4, at + 5) if place != at and place in rows.entries]
    best = min(near, key=lambda place: row_apart_nats(rows.entries[place], other), default=None)
    if best is None or not row_apart_nats(rows.entries[best], other) <= APART_NATS:
        return ""
    return f", which stands at position {best:,}"
