"""Prints what 30-pytorch.sh measured as a Markdown table: pytorch_report.py FOLDER PRESET..."""

import json
import os
import statistics
import sys


def read(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def mib(n):
    return f"{n / 2**20:,.0f}"


folder, presets = sys.argv[1], sys.argv[2:]
first = read(os.path.join(folder, f"{presets[0]}-fp32-eager.jsonl"))[0]
print(f"torch {first['torch']}, {first['threads']} threads; medians of rounds, sides in turn; tokens/s, MiB of peak RSS.\n")
print("| preset | precision | Loadline | eager | compiled | **speed ratio** | RSS | PyTorch's RSS | **RSS ratio** | without its import |")
print("|---|---|---|---|---|---|---|---|---|---|")
for preset in presets:
    for precision in ("fp32", "bf16"):
        rows = {m: read(os.path.join(folder, f"{preset}-{precision}-{m}.jsonl")) for m in ("loadline", "eager", "compile")}
        ours = [r["results"][0]["tokens_per_second"] for r in rows["loadline"]]
        speed = {m: [r["tokens_per_second"] for r in rows[m]] for m in ("eager", "compile")}
        best = max(speed, key=lambda m: statistics.median(speed[m]))
        ratio = statistics.median(a / b for a, b in zip(ours, speed[best]))
        rss = max(r["rss_peak_bytes"] for r in rows["loadline"])
        theirs = statistics.median(r["rss_peak_bytes"] for r in rows[best])
        bare = statistics.median(r["import_rss_bytes"] for r in rows[best])
        print(
            f"| {preset} | {precision} | {statistics.median(ours):,.0f} | {statistics.median(speed['eager']):,.0f} | {statistics.median(speed['compile']):,.0f} | "
            f"**{ratio:.2f}** | {mib(rss)} | {mib(theirs)} ({best}) | **{rss / theirs:.2f}** | {rss / (theirs - bare):.2f} |"
        )
