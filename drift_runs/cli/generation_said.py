"""What a protocol generates freely, in lines for a person: for ``drift check`` and ``drift plan``."""

from __future__ import annotations

from collections import Counter

from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import LOGIT_ENGINES


def generation_lines(loaded: LoadedProtocol) -> list[str]:
    """A line a lane; none for a protocol that generates nothing."""
    protocol = loaded.protocol
    lines = []
    if (branches := protocol.branches) is not None:
        what = (
            "every flip" if branches.roots == "every-flip" else f"strong overturns, then {branches.per_range} a range"
        )
        turns = f", {branches.turns} turns" if branches.turns > 1 else ""
        lines.append(
            f"futures     of {what}, at most {branches.cap} roots an arm; {branches.horizon_tokens} tokens{turns}, "
            f"calls in {branches.syntax}; {_histories(loaded)}"
        )
    if protocol.environments:
        named = sorted({name for found in protocol.environments for name in found.windows})
        lines.append(f"tools       answer in {', '.join(named)}")
    if (rollouts := protocol.rollouts) is not None and loaded.prompts is not None:
        count = _prompts(loaded, rollouts.subset)
        lines.append(f"rollouts    {count} prompts x {rollouts.tokens} tokens")
    if (sampled := protocol.sampled) is not None and loaded.prompts is not None:
        degrees = ", ".join(f"{found:g}" for found in sampled.temperatures)
        lines.append(
            f"sampled     {_prompts(loaded, sampled.prompts)} prompts x {sampled.tokens} tokens x "
            f"{sampled.draws} draws, temperature {degrees}"
        )
    if protocol.tasks:
        checks = Counter(task.check for task in protocol.tasks)
        forms = ", ".join(f"{count} {check}" for check, count in sorted(checks.items()))
        lines.append(f"tasks       {len(protocol.tasks)} ({forms})")
    if protocol.constrained:
        held = ", ".join(f"{found.name} ({found.arm}, {found.grammar})" for found in protocol.constrained)
        lines.append(f"grammars    {held}")
    return lines


def _histories(loaded: LoadedProtocol) -> str:
    """Where the branches of a root find its history."""
    arms = loaded.protocol.arms
    apart = [arm for arm in arms if arm.engine not in LOGIT_ENGINES]
    cold = [arm.name for arm in apart if arm.settings.cache_prompt is False]
    warm = [arm.name for arm in apart if arm.settings.cache_prompt is not False]
    ways = ["from KV cells that branches share"] if len(apart) < len(arms) else []
    if warm:
        ways.append(f"of {', '.join(warm)} from its prefix cache, if it keeps one")
    if cold:
        ways.append(f"of {', '.join(cold)} by a prefill for every future")
    return ", ".join(ways)


def _prompts(loaded: LoadedProtocol, subset: str) -> int:
    return sum(subset == "all" or prompt.quick for prompt in loaded.prompts.prompts)
