"""Make the operations windows' sources: held-out conversations whose every answer the merged reference passes.

    python windows.py --model SmolLM2-135M-Instruct.f16.gguf --adapter smollm2-ops.gguf \
        --out ../../protocols/sources/smollm2-ops --merged merged.gguf --protocol ../../protocols/smollm2-ops.toml

Needs the project and its extra "llama-cpp". ``--model`` is the stock F16 file, ``--merged`` where the two are merged
to: the file that ``drift record`` then takes as the reference. The same adapter and seed give the same windows on one
machine. How many answers were drawn and how many of them passed is kept in ``drawn.json``: the windows stand where the
reference is right, and that share says how often it is. A run that was stopped goes on with the windows that lack.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ops_windows.grow import Window, grow
from ops_windows.sources import facts, write
from ops_windows.wanted import WANTED

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import Inconclusive
from drift_runs.protocol.canonical import file_sha256, write_atomically
from drift_runs.weights.adapter import merge, read_adapter
from drift_runs.weights.variants import write_variant

CONTEXT_TOKENS = 2048


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--model", type=Path, required=True, help="the stock F16 weights, a GGUF file")
    made.add_argument("--adapter", type=Path, required=True, help="the adapter, a GGUF file")
    made.add_argument("--merged", type=Path, required=True, help="the merged F16 file; made where missing or older")
    made.add_argument("--out", type=Path, required=True, help="folder of the source texts")
    made.add_argument(
        "--protocol", type=Path, help="a draft protocol, whose note on how many passed is brought up to date"
    )
    made.add_argument("--seed", type=int, default=20251)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--most-answers", type=int, default=600, help="give a window up after so many drawn answers")
    made.add_argument("--only", action="append", metavar="WINDOW", help="this window alone; may be repeated")
    return made


def main() -> None:
    args = parser().parse_args()
    if is_stale(args.merged, args.model, args.adapter):
        edit = merge(read_adapter(args.adapter), 1.0, model=args.model)
        write_variant(args.model, args.merged, weights="f16", edit=edit)
    args.out.mkdir(parents=True, exist_ok=True)
    kept = Kept.of(args.out / "drawn.json", seed=args.seed, adapter=args.adapter, reference=args.merged)
    # What the recording and the reference of a campaign are opened with: another geometry could turn a near tie.
    settings = EngineSettings(
        path_shape="prefill",
        context_tokens=CONTEXT_TOKENS,
        batch=CONTEXT_TOKENS,
        micro_batch=512,
        threads=args.threads,
        kv="f16",
        flash_attention="on",
    )
    given_up: list[Inconclusive] = []
    with LlamaCpp(args.merged, settings) as engine:
        table = engine.token_bytes()
        for number, wanted in enumerate(WANTED):
            if wanted.name in kept.windows or (args.only and wanted.name not in args.only):
                continue
            begun = time.monotonic()
            try:
                window = grow(engine, wanted, args.seed, number, table, most_answers=args.most_answers)
            except Inconclusive as error:
                print(error, file=sys.stderr, flush=True)
                given_up.append(error)
                continue
            write(args.out, window)
            kept.add(window)
            said = ", ".join(f"{key} {value}" for key, value in facts(window).items())
            print(f"{wanted.name}: {said}; {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    if kept.windows:
        print(json.dumps(kept.all, indent=1))
    if given_up:
        raise SystemExit(f"{len(given_up)} windows were given up; the same command goes on with them")
    if args.protocol and len(kept.windows) == len(WANTED):
        noted = with_note(args.protocol.read_text(encoding="utf-8"), kept)
        write_atomically(args.protocol, noted.encode())


def is_stale(made: Path, *sources: Path) -> bool:
    """Whether a file is missing or older than what it is made from: a new adapter must not get the old merge."""
    return not made.is_file() or any(source.stat().st_mtime > made.stat().st_mtime for source in sources)


@dataclass(slots=True, kw_only=True)
class Kept:
    """``drawn.json``: what was drawn for each window that is done, so that a run that was stopped goes on."""

    path: Path
    made_with: dict[str, int | str]
    windows: dict[str, dict[str, int | float | str]]

    @classmethod
    def of(cls, path: Path, *, seed: int, adapter: Path, reference: Path) -> Kept:
        """What the file holds if it was made with the same seed, adapter and reference; else nothing."""
        made_with: dict[str, int | str] = {
            "seed": seed,
            "adapter_sha256": file_sha256(adapter),
            "reference_sha256": file_sha256(reference),
        }
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        same = all(found.get(key) == value for key, value in made_with.items())
        return cls(path=path, made_with=made_with, windows=found["windows"] if same else {})

    def add(self, window: Window) -> None:
        made = self.windows | {window.wanted.name: {"kind": window.wanted.kind, **facts(window)}}
        self.windows = {wanted.name: made[wanted.name] for wanted in WANTED if wanted.name in made}
        content = {**self.made_with, "all": self.all, "windows": self.windows}
        write_atomically(self.path, (json.dumps(content, indent=1) + "\n").encode())

    @property
    def all(self) -> dict[str, int | float]:
        """All windows together."""
        rows = self.windows.values()
        summed = {
            key: sum(row[key] for row in rows)
            for key in (
                "answers_drawn",
                "answers_passed",
                "answers",
                "scored_tokens",
                "stream_tokens",
                "literal_tokens",
            )
        }
        shares = {
            key: round(sum(row[key] * row["literal_tokens"] for row in rows) / max(1, summed["literal_tokens"]), 6)
            for key in ("literal_p1_mean", "literal_p1_strong_share")
        }
        return {**summed, "passed_share": round(summed["answers_passed"] / summed["answers_drawn"], 4), **shares}

    @property
    def counts(self) -> str:
        """How many answers of how many drawn the reference passed, altogether and by kind."""
        kinds = {
            kind: [row for row in self.windows.values() if row["kind"] == kind]
            for kind in dict.fromkeys(row["kind"] for row in self.windows.values())
        }
        by_kind = ", ".join(
            f"{kind} {sum(row['answers_passed'] for row in rows)} of {sum(row['answers_drawn'] for row in rows)}"
            for kind, rows in kinds.items()
        )
        return f"{self.all['answers_passed']} of {self.all['answers_drawn']} ({by_kind})"


def with_note(text: str, kept: Kept) -> str:
    """A protocol's text with the counts in the note that says how often the reference is right."""
    pattern = r"the reference passed \d+ of \d+(?: \([^)]*\))?,"
    noted, count = re.subn(pattern, f"the reference passed {kept.counts},", text)
    if count != 1:
        raise SystemExit(f"{count} notes say 'the reference passed N of M,', expected 1")
    return noted


if __name__ == "__main__":
    main()
