"""Numbers that servers write where they know no log-probability."""

from __future__ import annotations

EXACT = -100.0
BELOW = -1000.0
LARGEST_KL_NATS = 1e6
"""No two distributions of numbers in 32 bits lie further apart than some thousands of nats; sums of more overflow."""
WORDS = f"{EXACT:g}, or {BELOW:g} and less"


def is_sentinel(logprob: float) -> bool:
    """Whether a log-probability stands for *not known*.

    -9999 stands for minus infinity or for a failure in some servers, -100 in others. No softmax puts an entry that a
    server returns below -1,000; exactly -100 is possible and never seen, and taking it for data would be worse.
    """
    return logprob == EXACT or logprob <= BELOW
