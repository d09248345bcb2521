"""Which figures each section of the measures lists, in what order, and in what words."""

from __future__ import annotations

from dashboard.components.measures import Measure

SUPPORT = (
    Measure("tokens in both lists of best K", "shared_support@", "mean"),
    Measure("fewest at a position", "shared_support@", "min"),
    Measure("reference's mass outside the shared tokens, its tail included", "reference_mass_outside@", "mean"),
    Measure("most at a position", "reference_mass_outside@", "max"),
    Measure("dropped: the same of the reference's best K alone", "reference_mass_dropped@", "mean"),
    Measure("most at a position", "reference_mass_dropped@", "max"),
    Measure("of the reference's K, not returned by the candidate", "missed@", "share"),
    Measure("positions with fewer than two shared tokens", "support_collapse@", "count"),
    Measure("positions whose candidate tail was floored", "tail_floored@", "count"),
    Measure("most mass on padding columns, reference", "padding_mass.reference", "max"),
    Measure("most mass on padding columns, candidate", "padding_mass.candidate", "max"),
)
SHARPNESS = (
    Measure("entropy of the reference", "entropy.full.reference", "mean"),
    Measure("entropy of the candidate", "entropy.full.candidate", "mean"),
    Measure("candidate minus reference", "dentropy.full", "mean"),
    Measure("entropy of the reference, best K and a tail", "entropy.topk@.reference", "mean"),
    Measure("entropy of the candidate, best K and a tail", "entropy.topk@.candidate", "mean"),
    Measure("candidate minus reference, best K and a tail", "dentropy.topk@", "mean"),
    Measure("windows in which the candidate's entropy is higher", "entropy.full", "windows_above"),
    Measure("windows in which it is higher, best K and a tail", "entropy.topk@", "windows_above"),
    Measure("NLL of the text, reference", "nll.reference", "mean"),
    Measure("NLL of the text, candidate", "nll.candidate", "mean"),
    Measure("candidate minus reference", "dnll", "mean"),
    Measure("windows in which the candidate's NLL is higher", "nll", "windows_above"),
    Measure("probability of the text's token, candidate minus reference", "dp", "mean"),
    Measure("the text's token is the best one, reference", "rank.reference", "first_share"),
    Measure("the text's token is the best one, candidate", "rank.candidate", "first_share"),
)
FLIPS = (
    Measure("top-1 flips", "flip", "rate"),
    Measure("their number", "flip", "count"),
    Measure("without ties", "flip.strict", "rate"),
    Measure("their number", "flip.strict", "count"),
    Measure("strong overturns, of the strong positions", "strong_overturn", "rate"),
    Measure("their number", "strong_overturn", "count"),
    Measure("the two best tokens change places", "swap", "rate"),
    Measure("their number", "swap", "count"),
    Measure("candidate's best is not the text's token: a diagnostic", "flip.text", "rate"),
    Measure("worst range", "flip", "worst_range.rate"),
)
VOLATILE = (
    Measure("volatile positions", "volatile", "rate"),
    Measure("their number", "volatile", "count"),
    Measure("of them confident", "volatile.confident", "count"),
)
EXACT_ANSWERS = (
    Measure("answers that the arm would write to the letter", "answer.exact", "rate"),
    Measure("their number", "answer.exact", "count"),
    Measure("of the reference", "answer.exact", "reference_count"),
    Measure("exact in the reference alone", "answer.exact", "lost"),
    Measure("exact in the arm alone", "answer.exact", "gained"),
)
ROLLOUT_WORDS = {
    "rollout.exact": "continuations that are equal in full",
    "rollout.prefix": "equal prefix",
    "rollout.agree": "tokens that agree, position by position",
    "rollout.prefix.dlogprob": "difference of log-probability in the equal prefix",
}
LAUNCH_WORDS = {
    "mean": "mean over launches",
    "min": "smallest launch",
    "max": "largest launch",
    "difference": "largest minus smallest",
}
