"""``drift compare``: two files of one format against each other, without a store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drift_runs.importers.formats import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from drift_runs.importers.base import ImportedFile
    from drift_runs.measure.file_averages import Layout
    from drift_runs.measure.resampler import Resampler

HELP = """Compare two files of other tools at once. Nothing is stored.

Formats of rows (topk-rows, llama-kld, rows): A is the reference and B the candidate. Formats of figures that were made
against a reference elsewhere (csv, cuteafd-run, contexts): A and B are two candidates, and differences are A minus B.
rollouts: both sides are alike.

With llama-kld, B may be a GGUF model: it is run here over the tokens of A, as llama-perplexity runs it.

Quantiles with fewer than 10 values beyond them are marked, not hidden: published ones are given as they were made."""
EXAMPLE = """
drift compare quiet.json loaded.json --format topk-rows
drift compare a.csv b.csv --format csv --json
drift compare eager.json graph.json --format rollouts --run 1
drift compare f16.kld model-q4_0.gguf --format llama-kld --threads 4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", type=Path, help="the reference, or the first candidate")
    parser.add_argument("b", metavar="B", type=Path, help="the candidate, or the second one")
    parser.add_argument("--format", metavar="FORMAT", required=True, help="one of " + ", ".join(FORMATS))
    parser.add_argument("--run", metavar="N", type=int, default=0, help="which run of rollouts, from 0 (default: 0)")
    parser.add_argument(
        "--end-token",
        metavar="ID",
        type=int,
        action="append",
        default=[],
        help="of rollouts: id that ends a turn, to count early stops; may be given again",
    )
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="of a model that is run here (default: 1)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the intervals' draws (default: 0)")
    parser.add_argument(
        "--resamples", metavar="N", type=int, default=5000, help="of the intervals, 100 to 100,000 (default: 5000)"
    )
    parser.add_argument("--must-differ", action="store_true", help="it is an error when the two files say the same")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from drift_runs.cli.compare_text import text
    from drift_runs.errors import ConfigError, NotComparable, SameRows
    from drift_runs.importers.comparable import differences_between, reasons_between
    from drift_runs.importers.formats import load
    from drift_runs.kld_run import compare_with_model, is_model
    from drift_runs.measure.resampler import Resampler

    if not 1 <= args.threads <= 1024:
        raise ConfigError(f"--threads {args.threads}", expected="1 to 1024")
    if not 0 <= args.run < 2**31:
        raise ConfigError(f"--run {args.run}", expected="the number of a run, from 0")
    if args.end_token and args.format != "rollouts":
        raise ConfigError("--end-token is for --format rollouts", where=f"--format {args.format}")
    if any(not 0 <= token < 2**31 for token in args.end_token):
        raise ConfigError(f"--end-token {min(args.end_token)}", expected="a token id, 0 or more")
    if not 100 <= args.resamples <= 100_000:
        raise ConfigError(f"--resamples {args.resamples}", expected="100 to 100,000")
    if args.seed < 0:
        raise ConfigError(f"--seed {args.seed}", expected="0 or more")
    importer = load(args.format)
    a = importer.read(args.a)
    comparison = None
    if args.format == "llama-kld" and is_model(args.b):
        b, comparison = compare_with_model(args.a, args.b, threads=args.threads, on_chunk=_say_chunk)
    else:
        b = importer.read(args.b)
    reasons = list(reasons_between(a, b))
    resampler = Resampler(seed=args.seed, resamples=args.resamples)
    figures, same = (
        ({}, False) if reasons else _figures(a, b, importer, args.run, resampler, args.end_token, comparison)
    )
    document = {
        "format": args.format,
        "a": _file(a),
        "b": _file(b),
        "comparability": {
            "comparable": not reasons,
            "reasons": reasons,
            "differences": list(differences_between(a, b)),
        },
        "figures": figures,
        "notes": _notes(a, b, resampler, same),
    }
    if args.json:
        json.dump(document, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        print(text(document, a.kind))
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise NotComparable(f"not comparable: {reasons[0]}{more}", where=f"{args.a} and {args.b}")
    if same and args.must_differ:
        raise SameRows("the two files say the same", where=f"{args.a} and {args.b}", todo="was the switch really set?")
    return 0


def _figures(
    a: ImportedFile,
    b: ImportedFile,
    importer: Any,
    run: int,
    resampler: Resampler,
    end_tokens: Sequence[int],
    comparison: pa.Table | None = None,
) -> tuple[dict[str, Any], bool]:
    """Figures by spec id, and whether nothing differs. ``comparison``: what is known already of a and b."""
    from drift_runs.cli import compare_figures

    match a.kind:
        case "rows":
            from drift_runs.measure.determinism import determinism_table, summarise_determinism
            from drift_runs.measure.file_figures import file_figures

            if comparison is None and hasattr(importer, "compare_files"):
                comparison = importer.compare_files(a, b)
            elif comparison is None:
                from drift_runs.measure.topk import compare_topk

                comparison = compare_topk(a.table, b.table, top_k=a.top_k)
            found = file_figures(comparison, _layout(a), resampler, headline=a.divergence)
            rows = summarise_determinism(determinism_table(comparison, arm="b", against="a"))
            figures = compare_figures.of_files(found) | compare_figures.of_rows(rows)
            headline = next((item for item in found.divergences if item.spec.partition("@")[0] == a.divergence), None)
            same = rows.identical or (headline is not None and headline.largest == headline.smallest == 0)
            return figures, same
        case "comparison":
            from drift_runs.measure.file_differences import file_differences
            from drift_runs.measure.file_figures import file_figures

            layout = _layout(a)
            ours, theirs = (file_figures(file.table, layout, resampler, headline=file.divergence) for file in (a, b))
            differences = file_differences(a.table, b.table, layout, resampler)
            same = bool(differences) and all(item.equal == item.n for item in differences)
            return compare_figures.of_two(ours, theirs, differences), same
        case "contexts":
            from drift_runs.measure.contexts import paired_contexts, summarise_contexts

            pairs = paired_contexts(a.table, b.table, resampler=resampler)
            rows = [summarise_contexts(file.table, arm="", resampler=resampler).to_pylist() for file in (a, b)]
            same = all(item.equal == item.contexts for item in pairs)
            return compare_figures.of_contexts(rows[0], rows[1], pairs), same
        case "rollouts":
            from drift_runs.generate.rollouts import compare_rollouts

            compared = compare_rollouts(a.table, b.table, run=run, resampler=resampler, end_tokens=end_tokens)
            same = compared.exact_count == len(compared.prompts) and not compared.mean_abs_dlogprob_nats
            return compare_figures.of_rollouts(compared), same


def _say_chunk(done: int, chunks: int) -> None:
    if sys.stderr.isatty():
        print(f"\rchunk {done} of {chunks}", end="\n" if done == chunks else "", file=sys.stderr, flush=True)


def _layout(file: ImportedFile) -> Layout:
    from drift_runs.measure.file_averages import Layout

    by_document = file.cluster == "document"
    return Layout(
        unit=file.cluster,
        cluster={window.name: window.document if by_document else window.name for window in file.windows},
        group={window.name: window.group for window in file.windows},
    )


def _file(file: ImportedFile) -> dict[str, Any]:
    return {"path": str(file.path), "sha256": file.sha256, "facts": dict(file.facts)}


def _notes(a: ImportedFile, b: ImportedFile, resampler: Resampler, same: bool) -> list[str]:
    notes = [a.convention, *(note for note in a.notes if note in b.notes)]
    for name, file, other in (("a", a, b), ("b", b, a)):
        notes += [f"{name}: {note}" for note in file.notes if note not in other.notes]
    notes.append(
        f"intervals resample each {a.cluster} {resampler.resamples:,} times, seed {resampler.seed}: 95 % between "
        f"{a.cluster}s"
    )
    if a.sha256 == b.sha256:
        notes.append("both files have the same bytes")
    elif same:
        notes.append("the two files say the same: no figure differs")
    return notes
