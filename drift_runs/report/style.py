"""The style sheet of the HTML file: for a screen and for A4 paper, dark ink on white in both."""

from __future__ import annotations

from drift_runs.charts import palette

SHEET = f"""
:root {{ color-scheme: light; }}
* {{ box-sizing: border-box; }}
html {{ background: #fff; color: #262a33; -webkit-print-color-adjust: exact; print-color-adjust: exact; }}
body {{ font: 15px/1.45 "Source Sans 3", "Source Sans Pro", "Segoe UI", Helvetica, Arial, sans-serif;
  margin: 0 auto; padding: 2rem 2.2rem 4rem; max-width: 1360px; }}
h1 {{ font-size: 1.75rem; line-height: 1.2; margin: 0 0 0.4rem; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.3rem; margin: 2.4rem 0 0.5rem; padding-top: 0.7rem; border-top: 2px solid #d5d9e0;
  break-after: avoid; }}
h3 {{ font-size: 1.02rem; margin: 1.3rem 0 0.3rem; break-after: avoid; }}
p {{ margin: 0.25rem 0 0.6rem; max-width: 72rem; overflow-wrap: anywhere; }}
code {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.88em; overflow-wrap: anywhere; }}
nav {{ margin: 0.8rem 0 0; font-size: 0.9rem; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; }}
nav a {{ color: #1f6fa8; }}
.lead {{ font-size: 1.1rem; }}
.digest {{ font-size: 0.9rem; color: #565d6b; }}
.says {{ font-size: 0.88rem; color: #4a5160; }}
.box {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 0.8rem; line-height: 1.3; }}
thead {{ display: table-header-group; }}
th, td {{ padding: 0.34rem 0.45rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e1e4ea;
  overflow-wrap: break-word; }}
thead th {{ border-bottom: 2px solid #b9bfca; vertical-align: bottom; font-weight: 600; }}
tbody th {{ font-weight: 600; max-width: 15rem; }}
tr {{ break-inside: avoid; }}
tbody tr.same > * {{ border-top: 0; }}
.long {{ overflow-wrap: anywhere; min-width: 9rem; }}
.number {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
.value {{ font-weight: 600; }}
.small {{ display: block; font-weight: 400; font-size: 0.92em; color: #565d6b; white-space: normal; }}
.small.whole {{ white-space: nowrap; }}
.grey, .grey .value {{ color: #767d8a; font-weight: 400; }}
.mark {{ display: inline-block; white-space: nowrap; margin-top: 0.1rem; padding: 0 0.35rem; border-radius: 0.5rem;
  color: #262a33; border: 1px solid var(--hue); background: color-mix(in srgb, var(--hue) 14%, #fff); }}
.above {{ --hue: {palette.ABOVE}; }}
.within {{ --hue: {palette.WITHIN}; }}
.inconclusive, .warn {{ --hue: {palette.INCONCLUSIVE}; }}
.outlier {{ --hue: {palette.WITH_OUTLIERS}; }}
figure {{ margin: 0.8rem 0 1.2rem; break-inside: avoid; }}
figure svg {{ display: block; max-width: 100%; height: auto; }}
.pictures {{ display: flex; flex-wrap: wrap; gap: 0 1.5rem; }}
.pictures figure {{ flex: 1 1 100%; }}
.pictures figure.half {{ flex: 1 1 30rem; max-width: 44rem; }}
figcaption {{ font-size: 0.88rem; color: #4a5160; margin-bottom: 0.3rem; max-width: 72rem; }}
footer {{ margin-top: 2.5rem; border-top: 2px solid #d5d9e0; padding-top: 0.6rem; font-size: 0.85rem; color: #565d6b; }}
@page {{ size: A4 landscape; margin: 11mm 10mm 13mm;
  @bottom-right {{ content: counter(page) " of " counter(pages); font: 8pt sans-serif; color: #565d6b; }} }}
@media print {{
  body {{ font-size: 9.4pt; padding: 0; max-width: none; }}
  nav {{ display: none; }}
  h2 {{ margin-top: 1.1rem; }}
  p, .pictures:has(.half) {{ break-inside: avoid; }}
  h3, p:not(:last-child), figcaption, tr:has(+ tr.same) {{ break-after: avoid; }}
  .box {{ overflow: visible; }}
  table {{ font-size: 7.5pt; }}
  th, td {{ padding: 0.14rem 0.26rem; }}
  td.number {{ white-space: normal; }}
  td .value, td .mark {{ white-space: nowrap; }}
  td .small {{ display: inline-block; }}
  td[data-figure^="worst"] {{ min-width: 27mm; }}
  td .mark {{ margin-top: 0; padding: 0 0.3rem; line-height: 1.1; }}
  figure svg {{ max-height: 150mm; max-width: 277mm; }}
  .pictures {{ gap: 0 6mm; flex-wrap: nowrap; }}
  .pictures:not(:has(.half)) {{ display: block; }}
  .pictures figure.half {{ flex: 1 1 50%; max-width: 133mm; }}
}}
"""
