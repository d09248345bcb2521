"""Is there a row for every token, does it hang on the history, and how much of the dictionary can it list?"""

from __future__ import annotations

import numpy as np

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer
from drift_runs.engines.probe.asking import Asking, Cut, Refusal
from drift_runs.engines.probe.compared import row_difference

_TOLERANCE_NATS = 1e-5
"""Between two places of one answer that give the same log-probability, in texts of few digits."""
_FULL_TOKENS = 4
"""Of the cut whose whole rows are asked for: a server writes megabytes for each."""
_LADDER = (1000, 200, 100, 50, 20, 5)


def ask_rows(asking: Asking) -> list[Answer]:
    return [_rows(asking), _own(asking), _history(asking), _top_k(asking), _wanted(asking)]


def _rows(asking: Asking) -> Answer:
    task, seen = asking.task, asking.looked_at()
    verdict, evidence = NO, asking.no_rows()
    if not asking.cuts():
        verdict = OPEN
    elif len(seen) == len(asking.cuts()):
        count = sum(len(cut.positions) for cut, _ in seen)
        verdict, evidence = YES, f"{count} rows for the {count} tokens behind the first of {len(seen)} windows"
        for cut, block in seen:
            if wrong := _contradiction(block):
                verdict, evidence = NO, f"window {cut.window}: {wrong}"
    elif seen:
        evidence = next(str(asking.base(cut)) for cut in asking.cuts() if isinstance(asking.base(cut), Refusal))
    return Answer(
        question="rows",
        title=f"Is there a row for every token of the prompt but the first, in {task.path_shape} shape?",
        answer=verdict,
        evidence=evidence,
        needed=task.needs.scoring,
        way_round='settings = { path_shape = "decode" } with engine llama_server; engine vllm or sglang in prefill '
        "shape; an engine of this process; or a protocol of rollouts alone",
    )


def _contradiction(block: ListedBlock) -> str:
    """Where one row says two things of the text's own token; empty where none does."""
    for row in range(len(block.positions)):
        at, logprob, rank = int(block.positions[row]), block.token_logprob[row], int(block.token_rank[row])
        listed = block.logprobs[row][block.ids[row] >= 0]
        if not listed.size:
            return f"the row of position {at} lists nothing"
        if np.any(listed[1:] > listed[:-1] + _TOLERANCE_NATS):
            return f"the row of position {at} is not sorted"
        if np.isnan(logprob) or not 1 <= rank <= len(listed):
            continue
        if abs(listed[rank - 1] - logprob) > _TOLERANCE_NATS:
            return (
                f"at position {at} the text's own token has log-probability {logprob:.6f} at rank {rank}, "
                f"where the list has {listed[rank - 1]:.6f}"
            )
    return ""


def _own(asking: Asking) -> Answer:
    seen = [block for _, block in asking.looked_at()]
    verdict, evidence = OPEN, asking.no_rows()
    if seen:
        own = np.concatenate([block.token_logprob for block in seen])
        told = np.isfinite(own)
        verdict = YES if told.all() else NO
        evidence = f"told in {told.sum()} of {len(own)} rows"
        # Of those that are told alone it would be a mean of the probable ones.
        if told.all():
            asking.measured["own_token_logprob_mean_nats"] = float(own.mean())
            evidence += f", {own.mean():.3f} nats in the mean"
    return Answer(
        question="own-token",
        title="Does each row tell the log-probability of the text's own token, however improbable?",
        answer=verdict,
        evidence=evidence,
        needed=False,
        way_round="NLL and what follows from it are left out where the token is not listed: raise capture.top_k, or "
        "use engine vllm, sglang or one of this process",
    )


def _history(asking: Asking) -> Answer:
    """Another token earlier must change the row, and the text's own token must not."""
    verdict, evidence = OPEN, asking.no_rows()
    if asking.looked_at():
        cut = asking.cuts()[0]
        at = cut.positions[-1]
        plain = asking.rows(cut.tokens, [at], top_k=asking.top_k)
        changed = list(cut.tokens)
        changed[at // 2] = (changed[at // 2] + asking.task.dictionary_size // 2) % asking.task.dictionary_size
        other = asking.rows(changed, [at], top_k=asking.top_k)
        if isinstance(plain, Refusal) or isinstance(other, Refusal):
            evidence = str(plain if isinstance(plain, Refusal) else other)
        else:
            found = row_difference(plain, other)
            verdict = NO if found.identical else YES
            evidence = f"with another id at {at // 2} the row of position {at} is " + (
                "the same to the last bit" if found.identical else f"another one: {found}"
            )
    return Answer(
        question="history",
        title="Does a row change when a token before it is another one?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.scoring,
        way_round="the engine does not read the ids that it is sent: use another dialect or engine",
    )


def _top_k(asking: Asking) -> Answer:
    task = asking.task
    largest, refusal = _largest(asking)
    verdict, evidence = OPEN, asking.no_rows()
    wanted = min(task.top_k, task.dictionary_size)
    if largest:
        asking.measured["largest_top_k"] = float(largest)
        verdict = YES if largest >= wanted else NO
        evidence = f"up to {largest:,} entries a row were listed; the protocol takes {wanted:,}"
        evidence += f" (more was refused: {refusal})" if refusal and verdict == NO else ""
    elif refusal:
        verdict, evidence = NO, refusal
    return Answer(
        question="top-k",
        title=f"Can every row list {wanted:,} entries?",
        answer=verdict,
        evidence=evidence,
        needed=task.needs.scoring,
        way_round=f"start the server with a higher limit (vLLM: --max-logprobs {max(wanted, 20)})"
        + (f", or write a protocol with top_k = {largest}" if largest else ""),
    )


def _largest(asking: Asking) -> tuple[int, str]:
    """Entries of the longest list that was seen in every row, and why no longer one was had."""
    seen = [_entries(block) for _, block in asking.looked_at()]
    known, refusal = min(seen, default=0), str(asking.refused_top_k or "")
    cut = small_cut(asking)
    if cut is None:
        return known, refusal
    for asked in (asking.task.dictionary_size, *_LADDER):
        if asked > asking.task.dictionary_size or (asked <= known and known):
            continue
        whole = asked == asking.task.dictionary_size
        found = full_rows(asking) if whole else asking.rows(cut.tokens, cut.positions, top_k=asked)
        if isinstance(found, Refusal):
            refusal = refusal or str(found)
            continue
        return max(known, _entries(found)), refusal
    return known, refusal


def small_cut(asking: Asking) -> Cut | None:
    """A few tokens, for what costs a great deal a row."""
    cuts = asking.cuts()
    if not cuts:
        return None
    tokens = cuts[0].tokens[:_FULL_TOKENS]
    return Cut(cuts[0].window, tokens, tuple(range(1, len(tokens))))


def full_rows(asking: Asking) -> ListedBlock | Refusal:
    """Rows of the small cut with the whole dictionary, asked for once."""
    cut = small_cut(asking)
    if cut is None:
        return Refusal(asking.no_rows())
    return asking.kept("full", lambda: asking.rows(cut.tokens, cut.positions, top_k=asking.task.dictionary_size))


def _entries(block: ListedBlock) -> int:
    """Of the shortest row; entries that the server filled with a placeholder were listed as well."""
    return int(((block.ids >= 0).sum(axis=1) + block.sentinels).min())


def _wanted(asking: Asking) -> Answer:
    task = asking.task
    verdict, evidence = OPEN, asking.no_rows()
    gives = asking.ask(lambda: asking.engine.gives_wanted)
    if isinstance(gives, Refusal) or not gives:
        verdict = NO
        evidence = str(gives) if isinstance(gives, Refusal) else "the engine lists its best entries, and takes no ids"
    elif seen := asking.looked_at():
        cut, block = seen[0]
        # What a comparison asks for is another model's list: another row's stands for it.
        asked = [[int(token) for token in row if token >= 0] for row in np.roll(block.ids, 1, axis=0)]
        found = asking.rows(cut.tokens, cut.positions, top_k=asking.top_k, wanted=asked)
        if isinstance(found, Refusal):
            verdict, evidence = NO, str(found)
        else:
            verdict, evidence = _told(found, asked)
    return Answer(
        question="wanted",
        title="Does the engine tell the log-probabilities of ids that are named?",
        answer=verdict,
        evidence=evidence,
        needed=task.needs.wanted,
        way_round='divergence = "kl.topk-lower" or "kl.topk-shared", which need the lists alone; or engine vllm '
        "in decode shape, sglang, or one of this process",
    )


def _told(block: ListedBlock, asked: list[list[int]]) -> tuple[str, str]:
    """Whether each named id was told, and the same as in the list where it stands there too."""
    told = 0
    for row, ids in enumerate(asked):
        at = int(block.positions[row])
        values = dict(zip(block.wanted_ids[row].tolist(), block.wanted_logprobs[row].tolist(), strict=True))
        if missing := [token for token in ids if np.isnan(values.get(token, np.nan))]:
            return NO, f"{len(missing)} of {len(ids)} ids are not told at position {at}, the first is {missing[0]}"
        listed = dict(zip(block.ids[row].tolist(), block.logprobs[row].tolist(), strict=True))
        edge = min((value for token, value in listed.items() if token >= 0), default=np.inf)
        for token in ids:
            value = values[token]
            if token in listed and abs(value - listed[token]) > _TOLERANCE_NATS:
                return NO, f"id {token} at position {at} is {value:.6f} as named and {listed[token]:.6f} as listed"
            if token not in listed and value > edge + _TOLERANCE_NATS:
                return NO, f"id {token} at position {at} is {value:.6f}, above the list's last, and is not listed"
        told += len(ids)
    return YES, f"{told:,} ids told in {len(asked)} rows, {len(asked[0])} a row"
