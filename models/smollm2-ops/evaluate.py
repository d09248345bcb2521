"""Evaluate weight files on held-out tasks and on plain text, in this project's embedded engine.

    python evaluate.py --model base=f16.gguf --model tuned=smollm2-ops.gguf --out figures.json
    python evaluate.py --table figures.json

A model is a weight file, or ``FILE+ADAPTER`` for one with a run-time adapter. The first one is what the others are set
against. What is done is kept beside the output (``figures.rows.json``), so that a run that was stopped goes on, and
another model or a larger ``--per-kind`` costs its own part alone. See README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from ops_evaluation import plain_text
from ops_evaluation.answers import AnswerRow, answer_rows, encode
from ops_evaluation.report import SPLITS, tables
from ops_evaluation.shares import shares
from ops_tasks.draw import draw
from ops_tasks.tasks import KINDS, Task, pieces

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp, identity
from drift_runs.errors import DriftError, ModelFileError
from drift_runs.protocol.canonical import file_sha256

FORMAT = "smollm2-ops.figures/1"
TRAINED_SEED = 20251
READ_TOKENS_S, WRITTEN_TOKENS_S = 250, 44
"""Of SmolLM2-135M in F16 on two cores: what the plan is reckoned with."""
WRITTEN_SHARE = 0.03
"""Tokens decoded for one that is read, at the base model, which decodes most."""
CONTEXT_TOKENS = 2048
JUDGED_KINDS = tuple(kind for kind in KINDS if kind != "chat")
"""Chat has no expected answers."""


class Weights(NamedTuple):
    """A model to evaluate."""

    name: str
    file: Path
    adapter: Path | None

    def digests(self) -> dict[str, str]:
        files = {key: path for key, path in (("file", self.file), ("adapter", self.adapter)) if path}
        for path in files.values():
            if not path.is_file():
                raise ModelFileError("no such file", where=str(path), expected="a GGUF file", todo="correct --model")
        return {key: path.name for key, path in files.items()} | {
            f"{key}_sha256": file_sha256(path) for key, path in files.items()
        }


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--model", action="append", type=weights, default=[], metavar="NAME=FILE[+ADAPTER]")
    made.add_argument("--per-kind", type=int, default=12, help="conversations of each kind and split (default 12)")
    made.add_argument("--seed", type=int, default=20252, help=f"of the tasks; never {TRAINED_SEED}, which was trained")
    made.add_argument("--text-tokens", type=int, default=8192, help="tokens of reference prose (default 8192)")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--out", type=Path, default=Path("figures.json"))
    made.add_argument("--table", type=Path, metavar="FIGURES", help="print the tables of a file of figures and end")
    return made


def weights(text: str) -> Weights:
    name, _, files = text.partition("=")
    file, _, adapter = files.partition("+")
    if not name or not file:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=FILE or NAME=FILE+ADAPTER")
    return Weights(name, Path(file), Path(adapter) if adapter else None)


def main(arguments: list[str] | None = None) -> None:
    made = parser()
    args = made.parse_args(arguments)
    if args.table:
        print(tables(json.loads(args.table.read_text("utf-8"))))
        return
    if not args.model or len({one.name for one in args.model}) < len(args.model):
        made.error("give --model NAME=FILE once or more, each with a name of its own")
    if args.seed == TRAINED_SEED:
        made.error(f"--seed {TRAINED_SEED} is that of training")
    if args.per_kind < 1 or args.text_tokens < 2 or args.threads < 1:
        made.error("--per-kind, --text-tokens and --threads must be positive")
    try:
        figures = evaluate(args)
    except DriftError as error:
        raise SystemExit(str(error)) from None
    write(args.out, figures)
    print(tables(figures))


def evaluate(args: argparse.Namespace) -> dict:
    """Everything that is asked for, as it is written into the file of figures."""
    tasks = {
        split: [
            draw(split, args.seed, index, kind) for kind in KINDS if kind != "chat" for index in range(args.per_kind)
        ]
        for split in SPLITS
    }
    texts = plain_text.plain_texts(args.text_tokens)
    kept = Kept(args.out.with_suffix(".rows.json"))
    digests = {model.name: model.digests() for model in args.model}
    rows: dict[tuple[str, str], list[AnswerRow]] = {}
    losses: dict[tuple[str, str], list[plain_text.WindowLoss]] = {}
    progress: Progress | None = None
    for model in args.model:
        with opened(model, args.threads) as engine:
            progress = progress or plan(engine, args, tasks, texts)
            for split, drawn in tasks.items():
                key = part_key(digests[model.name], "answers", digest(drawn))
                if key not in kept.parts:
                    made = judged(engine, drawn, f"{model.name}, {split}", progress)
                    kept.put(key, [dataclasses.asdict(row) for row in made])
                else:
                    progress.skip(sum(len(encode(task, engine).tokens) for task in drawn))
                rows[split, model.name] = [AnswerRow(**row) for row in kept.parts[key]]
            for text in texts:
                cut = plain_text.windows(engine, text)
                key = part_key(digests[model.name], "text", text.sha256, text.most_tokens)
                if key not in kept.parts:
                    kept.put(key, [list(one) for one in read(engine, cut, f"{model.name}, {text.name}", progress)])
                else:
                    progress.skip(sum(map(len, cut)))
                losses[text.name, model.name] = [plain_text.WindowLoss(*one) for one in kept.parts[key]]
    progress.end()
    return {
        "format": FORMAT,
        "seed": args.seed,
        "per_kind": args.per_kind,
        "engine": identity().build,
        "models": digests,
        "order": [model.name for model in args.model],
        "splits": {
            split: {
                "conversations": len(drawn),
                "tasks_sha256": digest(drawn),
                "figures": {
                    model.name: {
                        scope: {name: share._asdict() for name, share in by_name.items()}
                        for scope, by_name in shares(rows[split, model.name]).items()
                    }
                    for model in args.model
                },
            }
            for split, drawn in tasks.items()
        },
        "plain_text": {text.name: text_figures(text, args.model, losses) for text in texts},
    }


def opened(model: Weights, threads: int) -> LlamaCpp:
    settings = EngineSettings(
        path_shape="prefill",
        context_tokens=CONTEXT_TOKENS,
        batch=512,
        micro_batch=512,
        threads=threads,
        kv="f16",
        flash_attention="on",
        adapter_scale=1.0 if model.adapter else None,
    )
    return LlamaCpp(model.file, settings, adapter=model.adapter)


def part_key(*of: object) -> str:
    """What a measurement is of, the engine and this format included."""
    return json.dumps([FORMAT, identity().build, *of], sort_keys=True)


def digest(drawn: list[Task]) -> str:
    """Of the conversations as they are read."""
    text = "\0".join("".join(piece.text for piece in pieces(task)) for task in drawn)
    return hashlib.sha256(text.encode()).hexdigest()


def judged(engine: LlamaCpp, drawn: list[Task], what: str, progress: Progress) -> list[AnswerRow]:
    table, rows = engine.token_bytes(), []
    for number, task in enumerate(drawn):
        rows += answer_rows(engine, task, number, table)
        progress.add(len(encode(task, engine).tokens), f"{what}: {number + 1} of {len(drawn)} conversations")
    return rows


def read(engine: LlamaCpp, cut: list[list[int]], what: str, progress: Progress) -> list[plain_text.WindowLoss]:
    found = []
    for number, window in enumerate(cut):
        found.append(plain_text.window_loss(engine, window))
        progress.add(len(window), f"{what}: {number + 1} of {len(cut)} windows")
    return found


def text_figures(
    text: plain_text.PlainText, models: list[Weights], losses: dict[tuple[str, str], list[plain_text.WindowLoss]]
) -> dict:
    base = losses[text.name, models[0].name]
    found = {}
    for model in models:
        own = losses[text.name, model.name]
        found[model.name] = {
            "perplexity": plain_text.perplexity(own),
            "ratio": plain_text.ratio_of(own, base)._asdict(),
        }
    return {
        "origin": text.origin,
        "sha256": text.sha256,
        "tokens": sum(loss.tokens for loss in base),
        "windows": len(base),
        "models": found,
    }


class Kept:
    """What was measured, by what it is of: one file, replaced whole after every part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, list] = json.loads(path.read_text("utf-8")) if path.is_file() else {}

    def put(self, key: str, part: list) -> None:
        self.parts[key] = part
        write(self.path, self.parts)


def write(path: Path, content: dict) -> None:
    """Write a file whole or not at all; the same content gives the same bytes."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(part, path)


def plan(engine: LlamaCpp, args: argparse.Namespace, tasks: dict[str, list[Task]], texts: tuple) -> Progress:
    """Say what there is to do, and how long it may take."""
    reading = sum(len(encode(task, engine).tokens) for drawn in tasks.values() for task in drawn)
    plain = sum(len(window) for text in texts for window in plain_text.windows(engine, text))
    total = (reading + plain) * len(args.model)
    minutes = (total / READ_TOKENS_S + WRITTEN_SHARE * reading * len(args.model) / WRITTEN_TOKENS_S) / 60
    conversations = sum(map(len, tasks.values()))
    print(
        f"{len(args.model)} models, {conversations} conversations and {plain:,} tokens of plain text each: "
        f"{total:,} tokens to read, about {minutes:.0f} min at {READ_TOKENS_S} tokens a second",
        file=sys.stderr,
        flush=True,
    )
    return Progress(total)


class Progress:
    """A line on stderr: what is done, at which rate, and how long the rest takes at it."""

    def __init__(self, total: int) -> None:
        self.left = total
        self.done = 0
        self.begun = time.monotonic()
        self.said = 0.0

    def skip(self, tokens: int) -> None:
        self.left -= tokens

    def add(self, tokens: int, what: str) -> None:
        self.done += tokens
        self.left -= tokens
        now = time.monotonic()
        # A terminal's line is replaced; a log gets one now and then.
        if now - self.said < (0.5 if sys.stderr.isatty() else 15):
            return
        self.said = now
        pace = self.done / max(now - self.begun, 1e-9)
        line = f"{what}, {pace:.0f} tokens/s, {self.left / pace / 60:.1f} min left"
        print(
            f"\r{line:<100}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr
        )

    def end(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
