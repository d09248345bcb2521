"""Make the operations windows' sources: held-out conversations whose every answer the merged reference passes.

    python windows.py --model SmolLM2-135M-Instruct.f16.gguf --adapter smollm2-ops.gguf \
        --out ../../protocols/sources/smollm2-ops --merged merged.gguf --protocol ../../protocols/smollm2-ops.toml

Needs the project and its extra "llama-cpp". ``--model`` is the stock F16 file, ``--merged`` where the two are merged
to: the file that ``drift record`` then takes as the reference. The same adapter and seed give the same windows on one
machine. How many answers were drawn and how many of them passed is printed and kept in ``drawn.json``: the windows
stand where the reference is right, and that share says how often it is.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

from ops_windows.grow import Window, grow
from ops_windows.sources import facts, write
from ops_windows.wanted import WANTED

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.protocol.canonical import file_sha256
from drift_runs.weights.adapter import merge, read_adapter
from drift_runs.weights.variants import write_variant

CONTEXT_TOKENS = 2048


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--model", type=Path, required=True, help="the stock F16 weights, a GGUF file")
    made.add_argument("--adapter", type=Path, required=True, help="the adapter, a GGUF file")
    made.add_argument("--merged", type=Path, required=True, help="the merged F16 file; made when it is not there")
    made.add_argument("--out", type=Path, required=True, help="folder of the source texts")
    made.add_argument(
        "--protocol", type=Path, help="a draft protocol, whose note on how many passed is brought up to date"
    )
    made.add_argument("--seed", type=int, default=20251)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--most-answers", type=int, default=400, help="give a window up after so many drawn answers")
    made.add_argument("--only", action="append", metavar="WINDOW", help="this window alone; may be repeated")
    return made


def main() -> None:
    args = parser().parse_args()
    if not args.merged.is_file():
        edit = merge(read_adapter(args.adapter), 1.0, model=args.model)
        write_variant(args.model, args.merged, weights="f16", edit=edit)
    args.out.mkdir(parents=True, exist_ok=True)
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
    made: dict[str, Window] = {}
    with LlamaCpp(args.merged, settings) as engine:
        table = engine.token_bytes()
        for number, wanted in enumerate(WANTED):
            if args.only and wanted.name not in args.only:
                continue
            begun = time.monotonic()
            window = made[wanted.name] = grow(engine, wanted, args.seed, number, table, most_answers=args.most_answers)
            write(args.out, window)
            said = ", ".join(f"{key} {value}" for key, value in facts(window).items())
            print(f"{wanted.name}: {said}; {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    summary = summarised(made)
    print(json.dumps(summary, indent=1))
    if not args.only:
        kept = {
            "seed": args.seed,
            "adapter_sha256": file_sha256(args.adapter),
            "reference_sha256": file_sha256(args.merged),
            "all": summary,
            "windows": {name: facts(window) for name, window in made.items()},
        }
        (args.out / "drawn.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        if args.protocol:
            text = args.protocol.read_text(encoding="utf-8")
            noted = with_note(text, passed=summary["answers_passed"], drawn=summary["answers_drawn"])
            args.protocol.write_text(noted, encoding="utf-8")


def with_note(text: str, *, passed: int, drawn: int) -> str:
    """A protocol's text with these counts in the note that says how often the reference is right."""
    noted, count = re.subn(r"the reference passed \d+ of \d+,", f"the reference passed {passed} of {drawn},", text)
    if count != 1:
        raise SystemExit(f"{count} notes say 'the reference passed N of M,', expected 1")
    return noted


def summarised(made: dict[str, Window]) -> dict[str, int | float]:
    """All windows together."""
    literal = [p1 for window in made.values() for p1, mark in zip(window.p1, window.literal, strict=True) if mark]
    drawn = sum(window.counts.drawn for window in made.values())
    passed = sum(window.counts.passed for window in made.values())
    return {
        "answers_drawn": drawn,
        "answers_passed": passed,
        "passed_share": round(passed / drawn, 4),
        "answers": sum(len(window.answers) for window in made.values()),
        "scored_tokens": sum(window.scored for window in made.values()),
        "stream_tokens": sum(len(window.tokens) for window in made.values()),
        "literal_tokens": len(literal),
        "literal_p1_mean": round(sum(literal) / len(literal), 6),
        "literal_p1_strong_share": round(sum(p1 >= 0.9 for p1 in literal) / len(literal), 6),
    }


if __name__ == "__main__":
    main()
