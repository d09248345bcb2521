"""The one style sheet of the pages' own markup. It takes its ink from the theme, so it reads in light and dark."""

from __future__ import annotations

from drift_runs.charts import palette

SHEET = f"""
[data-testid="stMainBlockContainer"] {{ padding: 3.2rem 2.2rem 4rem; }}
.dr-scroll {{ overflow-x: auto; max-width: 100%; }}
.dr-table {{ border-collapse: collapse; width: 100%; font-size: 0.84rem; line-height: 1.35; }}
.dr-wide th:first-child {{ position: sticky; left: 0; z-index: 1; background: Canvas;
  background: light-dark({palette.PAGE_LIGHT}, {palette.PAGE_DARK}); }}
.dr-wide tbody th:first-child {{ min-width: 7.2rem; max-width: 10rem; }}
@media (max-width: 1200px) {{
  .dr-wide {{ font-size: 0.78rem; }}
  .dr-wide th, .dr-wide td {{ padding: 0.3rem 0.3rem; }}
  .dr-wide .dr-value {{ font-size: 0.86rem; }}
  .dr-wide tbody th:first-child {{ min-width: 6rem; max-width: 7.5rem; }}
}}
@media (min-width: 1201px) {{
  .dr-compact {{ font-size: 0.8rem; }}
  .dr-compact th, .dr-compact td {{ padding: 0.35rem 0.25rem; }}
  .dr-compact tbody th:first-child {{ min-width: 6.6rem; max-width: 8rem; }}
  .dr-compact .dr-small, .dr-compact .dr-title, .dr-compact .dr-spec {{ font-size: 0.72rem; }}
  .dr-compact .dr-chip {{ font-size: 0.7rem; padding: 0 0.3rem; margin-right: 0.1rem; }}
  .dr-compact .dr-value {{ font-size: 0.92rem; }}
}}
.dr-table thead .dr-over {{ padding-bottom: 0.1rem;
  border-bottom: 1px solid color-mix(in srgb, currentColor 30%, transparent); }}
.dr-wide thead tr + tr th:first-child {{ position: static; }}
.dr-wide .dr-group th {{ padding-top: 0.8rem; max-width: none; font-size: 0.88rem; }}
.dr-wide .dr-group th > span {{ position: sticky; left: 0.42rem; }}
.dr-swatch {{ display: inline-block; width: 0.7rem; height: 0.7rem; margin-right: 0.35rem; border-radius: 0.2rem; }}
.dr-wide thead th {{ max-width: 12rem; overflow-wrap: break-word; }}
.dr-setting {{ max-width: 18rem; }}
.dr-caption {{ font-size: 0.82rem; margin: 0 0 0.35rem; opacity: 0.8; max-width: 62rem; }}
.dr-table th, .dr-table td {{
  padding: 0.4rem 0.42rem; vertical-align: top; text-align: left;
  border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }}
.dr-table thead th {{ font-weight: 600; vertical-align: bottom;
  border-bottom: 2px solid color-mix(in srgb, currentColor 30%, transparent); }}
.dr-table tbody th {{ font-weight: 600; min-width: 7.5rem; max-width: 13rem; }}
.dr-reasons {{ min-width: 11rem; max-width: 22rem; }}
.dr-title {{ font-weight: 400; font-size: 0.78rem; opacity: 0.85; }}
.dr-num {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
.dr-table .dr-right {{ text-align: right; }}
.dr-value {{ font-weight: 650; font-size: 0.95rem; }}
.dr-small {{ font-size: 0.76rem; opacity: 0.8; }}
.dr-spec {{ font-weight: 400; font-size: 0.74rem; opacity: 0.75; font-family: monospace; }}
.dr-line {{ display: block; }}
.dr-part {{ display: inline-block; }}
.dr-wrap {{ white-space: normal; overflow-wrap: anywhere; }}
.dr-words {{ white-space: normal; overflow-wrap: break-word; min-width: 5rem; max-width: 26rem; }}
.dr-grey {{ opacity: 0.55; }}
.dr-same {{ opacity: 0.5; }}
.dr-chip {{ display: inline-block; padding: 0 0.4rem; border-radius: 0.6rem; font-size: 0.74rem; line-height: 1.25rem;
  white-space: nowrap; border: 1px solid var(--dr-hue);
  background: color-mix(in srgb, var(--dr-hue) 16%, transparent); }}
.dr-chip {{ margin-right: 0.25rem; }}
.dr-above {{ --dr-hue: {palette.ABOVE}; }}
.dr-within {{ --dr-hue: {palette.WITHIN}; }}
.dr-inconclusive {{ --dr-hue: {palette.INCONCLUSIVE}; }}
.dr-plain {{ --dr-hue: {palette.NEUTRAL}; }}
.dr-outlier {{ --dr-hue: {palette.WITH_OUTLIERS}; }}
.dr-warn {{ --dr-hue: {palette.INCONCLUSIVE}; }}
.dr-head {{ margin-bottom: 0.4rem; }}
.dr-question {{ font-size: 1.02rem; margin: 0.3rem 0; max-width: 62rem; }}
.dr-notes {{ margin: 0.4rem 0; padding: 0.45rem 0.8rem; max-width: 62rem; font-size: 0.88rem;
  border-left: 3px solid {palette.NEUTRAL}; background: color-mix(in srgb, currentColor 5%, transparent); }}
.dr-notes p {{ margin: 0.15rem 0; overflow-wrap: anywhere; }}
.dr-say {{ max-width: 62rem; margin: 0.2rem 0 0.6rem; overflow-wrap: anywhere; }}
.dr-text {{ font-family: monospace; font-size: 0.8rem; white-space: pre-wrap; overflow-wrap: anywhere; min-width: 18rem;
  max-width: 40rem; }}
.dr-text b {{ font-weight: 700; padding: 0 0.15rem; border-radius: 0.2rem; border-bottom: 2px solid var(--dr-hue);
  background: color-mix(in srgb, var(--dr-hue) 14%, transparent); }}
.dr-token {{ font-family: monospace; overflow-wrap: anywhere; }}
.dr-narrow {{ max-width: 24rem; }}
.dr-key {{ font-size: 0.8rem; opacity: 0.85; margin: 0.3rem 0; }}
"""
