"""mlx_lm.server: writes behind a text, with the ids of what it wrote.

It takes no token ids and says nothing of prompt tokens. With ``top_logprobs`` each entry's own label is the first of an
unsorted list and not the token that was written, so two requests are sent: one says what was written, the other what
else was probable. Their texts must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drift_runs.engines.openai_server.listing import Row, check_count
from drift_runs.engines.openai_server.server import NOT_SAID, text_of
from drift_runs.engines.openai_server.text_server import TextServer
from drift_runs.errors import ServerError

SEED = 0
STARTED_WITH = "default_model"
"""The name of the model that the server was started with. Any other name makes it load that other model."""
LEAST_TOKENS = 2
"""Of a request: behind a single one its prompt cache holds the very prompt, and another request of that prompt ends the
connection (mlx-lm 0.32.2)."""
NEUTRAL: Mapping[str, Any] = {
    "temperature": 0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 0.0,
    "xtc_probability": 0.0,
    "seed": SEED,
    "logprobs": True,
}


class MLXLMServer(TextServer):
    """One mlx_lm.server."""

    dialect = "mlx_lm_server"
    largest_top_k = 11
    way_round = "score with the engine mlx, which opens the same model folder in this process"

    def find_served(self) -> str:
        """Its list names whatever lies in the download cache: the model is the one that it was started with."""
        served = self.place.served or STARTED_WITH
        body = {**NEUTRAL, "model": served, "prompt": "a", "max_tokens": 1}
        answer = self.transport.post("/v1/completions", body).body
        self._versions = answer.get("system_fingerprint") if isinstance(answer, dict) else None
        return served

    def facts(self) -> dict[str, str]:
        """``version`` is mlx-lm's and MLX's, as the fingerprint begins."""
        if not isinstance(self._versions, str):
            return {"version": NOT_SAID}
        ours, _, rest = self._versions.partition("-")
        return {"version": text_of(f"mlx-lm {ours}, mlx {rest.partition('-')[0]}"), "platform": text_of(rest)}

    def _written(self, text: str, tokens: Sequence[int], count: int, top_k: int) -> list[Row]:
        asked = max(count, LEAST_TOKENS)
        chosen, chosen_text, reason = self._ask(text, tokens, asked)
        listed, listed_text, _ = self._ask(text, tokens, asked, top_logprobs=top_k)
        if chosen_text != listed_text:
            raise ServerError(
                "two answers to one request differ",
                where=f"{self.where}, behind {len(tokens):,} tokens",
                expected="the same text, greedily",
                todo="start it with --prompt-concurrency 1 --decode-concurrency 1, and let nothing else use it",
            )
        check_count("rows of the second answer", len(listed), len(chosen), where=self.where)
        self.check_end(reason, len(chosen), asked, ends=("stop", "tool_calls"))
        try:
            return [
                Row(
                    len(tokens) + at,
                    one["id"],
                    [(entry["id"], entry["logprob"]) for entry in other["top_logprobs"]],
                    own_logprob=one["logprob"],
                )
                for at, (one, other) in enumerate(zip(chosen, listed, strict=True))
            ][:count]
        except (KeyError, TypeError):
            raise self.missing("entries with an id and a log-probability") from None

    def _ask(self, text: str, tokens: Sequence[int], count: int, **more: int) -> tuple[list[Any], str, object]:
        """Entries, text and reason of the end."""
        body = {**NEUTRAL, "model": self.served, "prompt": text, "max_tokens": count, **more}
        answer = self.check_answer(self.transport.post("/v1/completions", body).body)
        usage = answer.get("usage")
        self.check_read(usage.get("prompt_tokens") if isinstance(usage, dict) else None, tokens)
        choice = self.choice_of(answer)
        listed = choice.get("logprobs")
        content = listed.get("content") if isinstance(listed, dict) else None
        if not isinstance(content, list):
            raise self.missing("logprobs.content")
        self.check_count_written(len(content), usage.get("completion_tokens"))
        return content, str(choice.get("text")), choice.get("finish_reason")
