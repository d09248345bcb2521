"""Are the ids that go in the ids that the engine reads, and is their table the protocol's?"""

from __future__ import annotations

from collections.abc import Sequence

from drift_runs.engines.dictionary import first_difference, used_beyond
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer, ProbeTask, ProbeWindow
from drift_runs.engines.probe.asking import Asking, Refusal
from drift_runs.engines.probe.wire import on_the_wire
from drift_runs.protocol.canonical import dictionary_sha256

_TEXT_LIMIT = 200_000
"""Characters of a window whose round trip is made: longer ones are left out, and counted."""


def ask_ids(asking: Asking) -> list[Answer]:
    return [_dictionary(asking), _round_trip(asking), _count(asking)]


def _dictionary(asking: Asking) -> Answer:
    task = asking.task
    verdict, evidence = _compared(asking.table(), task)
    return Answer(
        question="dictionary",
        title="Is the engine's table of ids and bytes the protocol's?",
        answer=verdict,
        evidence=evidence,
        needed=task.needs.dictionary,
        way_round="give the arm the protocol's own model, or write a protocol for this tokenizer"
        if verdict == NO
        else 'name the model\'s tokenizer in drift.toml: tokenizer = "…", a folder with tokenizer.json',
    )


def _compared(table: list[bytes] | Refusal, task: ProbeTask) -> tuple[str, str]:
    if isinstance(table, Refusal):
        return OPEN, str(table)
    kept, rest = table[: task.dictionary_size], table[task.dictionary_size :]
    digest = dictionary_sha256(kept)
    said = f"{len(table):,} entries, digest {digest[:12]}…"
    if len(kept) < task.dictionary_size:
        return NO, f"{said}: {task.dictionary_size - len(kept):,} fewer than the protocol's"
    if digest != task.dictionary_sha256:
        first = first_difference(kept, known=task.dictionary, streams=task.windows)
        return NO, f"{said} and not {task.dictionary_sha256[:12]}…; {first}"
    if used := used_beyond(table, task.dictionary_size):
        return NO, f"{said}: {used}"
    if rest:
        return YES, f"{said} of the first {len(kept):,}, as the protocol's; {len(rest):,} more are padding"
    return YES, f"{said}, as the protocol's"


def _round_trip(asking: Asking) -> Answer:
    """Texts to ids, and the ids held against the streams. A token of a text that a model wrote may be cut elsewhere."""
    table = asking.table()
    same = other_cut = skipped = 0
    seen: set[tuple[int, ...]] = set()
    verdict, evidence = OPEN, "the protocol has no window with a text"
    for window in asking.task.windows:
        if not window.text or window.tokens in seen:
            continue
        seen.add(window.tokens)
        if len(window.text) > _TEXT_LIMIT:
            skipped += 1
            continue
        text = window.text
        found = asking.ask(lambda text=text: asking.engine.tokenize(text))
        if found is None or isinstance(found, Refusal):
            verdict, evidence = OPEN, "the engine turns no text into ids" if found is None else str(found)
            break
        if tuple(found) == window.tokens:
            same += 1
        elif window.generated and _same_bytes(found, window, table):
            other_cut += 1
        else:
            verdict, evidence = NO, f"window {window.name}: {difference(found, window)}"
            break
    else:
        if same or other_cut:
            verdict, evidence = YES, f"{same} of {same + other_cut} texts gave their ids"
            evidence += f"; {other_cut} that a model wrote gave other ids of the same bytes" if other_cut else ""
        if skipped:
            verdict = OPEN if not same else verdict
            evidence += f"; {skipped} of more than {_TEXT_LIMIT:,} characters were left out"
    return Answer(
        question="round-trip",
        title="Does the engine turn each window's text into the window's ids?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.text,
        way_round="scoring sends ids and needs none of it; leave out of the protocol what has an engine read texts "
        "(branches of several turns), or use engine llama_server, vllm or one of this process",
    )


def difference(found: Sequence[int], window: ProbeWindow) -> str:
    """Where two lists of ids part."""
    first = next(
        (at for at, (a, b) in enumerate(zip(found, window.tokens, strict=False)) if a != b),
        min(len(found), len(window.tokens)),
    )
    if tuple(found[1:]) == window.tokens:
        return f"the engine puts id {found[0]} in front of the text's own {len(window.tokens):,}"
    here = f"id {found[first]}" if first < len(found) else "its end"
    there = f"id {window.tokens[first]}" if first < len(window.tokens) else "its end"
    return f"{len(found):,} ids for {len(window.tokens):,}; at {first} the engine has {here}, the window {there}"


def _same_bytes(found: Sequence[int], window: ProbeWindow, table: list[bytes] | Refusal) -> bool:
    if isinstance(table, Refusal) or any(not 0 <= token < len(table) for token in (*found, *window.tokens)):
        return False
    return b"".join(table[token] for token in found) == b"".join(table[token] for token in window.tokens)


def _count(asking: Asking) -> Answer:
    """A BOS that the server adds to ids shifts every row by one, and nothing in the rows themselves says so."""
    verdict, evidence = OPEN, "the engine does not say how many ids it read"
    if asking.in_process:
        verdict, evidence = YES, "the ids go to the model as they are: nothing stands between"
    else:
        with on_the_wire(asking.own) as wire:
            for cut in asking.cuts():
                asking.rows(cut.tokens, [cut.positions[-1]], top_k=min(5, asking.top_k))
        if wire is not None and wire.counted:
            wrong = [counted for counted in wire.counted if counted.read != counted.sent]
            verdict = NO if wrong else YES
            evidence = "; ".join(f"{read} ids read of {sent} sent" for sent, read in (wrong or wire.counted)[:3])
        elif isinstance(found := asking.base(asking.cuts()[0]) if asking.cuts() else None, Refusal):
            evidence = str(found)
    return Answer(
        question="bos",
        title="Does the engine read the ids that it is sent, and put none in front?",
        answer=verdict,
        evidence=evidence,
        needed=verdict == NO and (asking.task.needs.scoring or asking.task.needs.generation),
        way_round="start the server without an automatic BOS; a stream that needs one has it among its own ids"
        if verdict == NO
        else "what comes back is held against what was sent by the question rows",
    )
