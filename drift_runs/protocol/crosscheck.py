"""What one key of a protocol demands of another: names, spans, ranges, answers, streams, floors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drift_runs.protocol.crosscheck_arms import arms_and_floors, batches
from drift_runs.protocol.model import Protocol, Stream, Window
from drift_runs.protocol.problems import Loc, Problems, shown


def cross_check(problems: Problems, protocol: Protocol, streams: Mapping[str, Stream]) -> None:
    """Add every contradiction to ``problems``.

    ``streams`` maps window names to streams; a window whose stream could not be read is absent and only what needs
    its stream is skipped.
    """
    _names(problems, protocol)
    _settings(problems, protocol)
    _panels_and_spans(problems, protocol, streams)
    _ranges(problems, protocol)
    _answers(problems, protocol)
    _outliers(problems, protocol)
    arms_and_floors(problems, protocol)


def _names(problems: Problems, protocol: Protocol) -> None:
    if not protocol.windows:
        problems.add(("windows",), "no window is declared", expected="at least one [[windows]]")
    for table in ("panels", "windows", "ranges", "answers", "arms", "floors"):
        unique(problems, table, [item.name for item in getattr(protocol, table)])
    arms = {arm.name for arm in protocol.arms}
    for index, floor in enumerate(protocol.floors):
        if floor.name in arms:
            problems.add(
                ("floors", index, "name"), f"an arm is named {shown(floor.name)} too", expected="a name of its own"
            )


def unique(problems: Problems, table: str, names: Iterable[str]) -> None:
    """Names that differ in case only are one name: they become file names, and some file systems fold case."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(name.casefold(), index)
        if first != index:
            problems.add(
                (table, index, "name"),
                f"duplicate name {shown(name)}, first used by {table}[{first}]",
                expected="names that differ in more than case",
            )


def _settings(problems: Problems, protocol: Protocol) -> None:
    capture = protocol.capture
    if protocol.dictionary is None:
        problems.add(("dictionary",), "missing key 'dictionary'", expected="[dictionary] with size and sha256")
    if capture.full_vocabulary == "no" and not capture.divergence.startswith("kl.topk-"):
        problems.add(
            ("capture", "divergence"),
            f"{shown(capture.divergence)} needs full rows, and full_vocabulary is 'no'",
            expected="one of the kl.topk-* definitions",
        )
    batches(problems, ("capture", "micro_batch"), capture.micro_batch, capture.batch)
    buckets = protocol.history.buckets
    for index in range(1, len(buckets)):
        if buckets[index] <= buckets[index - 1]:
            problems.add(
                ("history", "buckets", index),
                f"{buckets[index]} follows {buckets[index - 1]}",
                expected="upper ends that rise",
            )
    bands = protocol.bands
    if bands.uncertain_below > bands.strong_from:
        problems.add(
            ("bands", "uncertain_below"),
            f"{bands.uncertain_below} is above bands.strong_from {bands.strong_from}",
            expected="uncertain_below at most strong_from",
        )


def _panels_and_spans(problems: Problems, protocol: Protocol, streams: Mapping[str, Stream]) -> None:
    panels = {panel.name: panel for panel in protocol.panels}
    documents: dict[str, Window] = {}
    for index, window in enumerate(protocol.windows):
        loc: Loc = ("windows", index)
        panel = panels.get(window.panel)
        if panel is None:
            problems.unknown((*loc, "panel"), "panel", window.panel, panels)
        first = documents.setdefault(window.stream, window)
        if first.document != window.document:
            problems.add(
                (*loc, "document"),
                f"{shown(window.document)}, but {shown(first.name)} of the same stream says {shown(first.document)}",
                expected="one document for one stream, because documents are resampled as independent",
            )
        stream = streams.get(window.name)
        _spans(problems, loc, window, stream)
        if stream is None:
            continue
        if first is window:
            _stream(problems, protocol, loc, window, stream)
        if panel is None:
            continue
        wanted = "authored" if panel.role == "prompt" else "generated"
        if stream.source != wanted:
            problems.add(
                (*loc, "panel"),
                f"panel {shown(panel.name)} has role {panel.role}, but {window.stream} is {stream.source}",
                expected=f"a stream whose source is {wanted}",
            )
        elif panel.role == "generated" and window.scored and window.scored[0][0] < stream.prompt_tokens:
            problems.add(
                (*loc, "scored", 0, 0),
                f"{window.scored[0][0]} lies in the prompt",
                expected=f"positions from {stream.prompt_tokens} (prompt_tokens of {window.stream})",
            )


def _spans(problems: Problems, loc: Loc, window: Window, stream: Stream | None) -> None:
    if not window.scored:
        problems.add((*loc, "scored"), "no span is scored", expected="at least one span [from, to)")
    previous_end = 1
    for number, (start, end) in enumerate(window.scored):
        here = (*loc, "scored", number)
        if start < 1:
            problems.add((*here, 0), f"a span begins at {start}", expected="1 or more: position 0 has no prediction")
        if end <= start:
            problems.add(here, f"the span [{start}, {end}) is empty", expected="from below to")
        elif number and start < previous_end:
            before = window.scored[number - 1]
            problems.add(
                here,
                f"[{start}, {end}) overlaps or precedes [{before[0]}, {before[1]})",
                expected="spans in order that do not overlap",
            )
        if stream is not None and end > len(stream.tokens):
            problems.add(
                (*here, 1),
                f"{end} is beyond the stream",
                expected=f"at most {len(stream.tokens)} (tokens in {window.stream})",
            )
        previous_end = max(previous_end, end)


def _stream(problems: Problems, protocol: Protocol, loc: Loc, window: Window, stream: Stream) -> None:
    here = (*loc, "stream")
    if protocol.dictionary is None:
        return
    size = protocol.dictionary.size
    if stream.tokens and max(stream.tokens) >= size:
        place = next(place for place, token in enumerate(stream.tokens) if token >= size)
        problems.add(
            here,
            f"id {stream.tokens[place]} at index {place} of {window.stream} is beyond the dictionary",
            expected=f"ids below {size} (dictionary.size)",
        )
    if len(stream.tokens) > protocol.capture.context_tokens:
        problems.add(
            here,
            f"{window.stream} has {len(stream.tokens)} tokens",
            expected=f"at most {protocol.capture.context_tokens} (capture.context_tokens)",
        )
    if stream.source == "authored" and stream.prompt_tokens:
        problems.add(
            here, f"{window.stream} is authored with prompt_tokens {stream.prompt_tokens}", expected="prompt_tokens 0"
        )
    elif stream.prompt_tokens > len(stream.tokens):
        problems.add(
            here,
            f"{window.stream} has prompt_tokens {stream.prompt_tokens} and {len(stream.tokens)} tokens",
            expected="prompt_tokens of at most the tokens",
        )


def _ranges(problems: Problems, protocol: Protocol) -> None:
    windows = {window.name: window for window in reversed(protocol.windows)}  # of equal names the first counts
    taken: dict[str, list[tuple[int, int, str]]] = {}
    for index, item in enumerate(protocol.ranges):
        loc: Loc = ("ranges", index)
        window = windows.get(item.window)
        if window is None:
            problems.unknown((*loc, "window"), "window", item.window, windows)
            continue
        if item.end <= item.start:
            problems.add(loc, f"the range [{item.start}, {item.end}) is empty", expected="from below to")
            continue
        # What lies between may be unscored: the user's turns of a conversation, for instance.
        for key, position in (("from", item.start), ("to", item.end - 1)):
            if not covered(position, position + 1, window.scored):
                problems.add(
                    (*loc, key),
                    f"position {position}, the {'first' if key == 'from' else 'last'} of [{item.start}, {item.end}), "
                    f"is not scored in window {shown(window.name)}",
                    expected=f"an edge of {_scored_spans(window)}",
                )
        for start, end, name in taken.setdefault(item.window, []):
            if item.start < end and start < item.end:
                problems.add(
                    loc,
                    f"[{item.start}, {item.end}) overlaps [{start}, {end}) of range {shown(name)}",
                    expected="ranges of a window that do not overlap",
                )
                break
        taken[item.window].append((item.start, item.end, item.name))


def _answers(problems: Problems, protocol: Protocol) -> None:
    windows = {window.name: window for window in reversed(protocol.windows)}
    taken: dict[str, list[tuple[int, int, str]]] = {}
    for index, item in enumerate(protocol.answers):
        loc: Loc = ("answers", index)
        here = f"[{item.start}, {item.end})"
        window = windows.get(item.window)
        if window is None:
            problems.unknown((*loc, "window"), "window", item.window, windows)
            continue
        if item.end <= item.start:
            problems.add(loc, f"the answer {here} is empty", expected="from below to")
            continue
        if not covered(item.start, item.end, window.scored):
            problems.add(
                loc,
                f"{here} is not scored throughout in window {shown(window.name)}",
                expected=f"a span inside {_scored_spans(window)}",
            )
        for start, end, name in taken.setdefault(item.window, []):
            if item.start < end and start < item.end:
                problems.add(
                    loc,
                    f"{here} overlaps [{start}, {end}) of answer {shown(name)}",
                    expected="answers of a window that do not overlap",
                )
                break
        taken[item.window].append((item.start, item.end, item.name))
        for span in protocol.ranges:
            outside = item.end <= span.start or span.end <= item.start
            if span.window == item.window and not outside and (item.start < span.start or span.end < item.end):
                problems.add(
                    loc,
                    f"{here} crosses an edge of [{span.start}, {span.end}), range {shown(span.name)}",
                    expected="an answer inside one range or outside all",
                )


def _scored_spans(window: Window) -> str:
    spans = ", ".join(f"[{start}, {end})" for start, end in window.scored[:6])
    more = f" and {len(window.scored) - 6} more" if len(window.scored) > 6 else ""
    return f"{spans}{more}" if spans else "a scored span"


def covered(start: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether every position of [start, end) lies in one of the half-open spans."""
    for low, high in sorted(spans):
        if low <= start < high:
            start = high
    return start >= end


def _outliers(problems: Problems, protocol: Protocol) -> None:
    windows = {window.name for window in protocol.windows}
    seen: set[str] = set()
    for index, outlier in enumerate(protocol.outliers):
        if outlier.window not in windows:
            problems.unknown(("outliers", index, "window"), "window", outlier.window, sorted(windows))
        if outlier.window in seen:
            problems.add(("outliers", index, "window"), f"{shown(outlier.window)} is declared twice", expected="once")
        seen.add(outlier.window)
