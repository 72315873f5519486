"""Make up the small table that R and wordprob both analyse: python tests/analysis/r/make_small.py"""

from pathlib import Path

import numpy as np

random = np.random.default_rng(7)
lines = ["text_id\tword_id\tword\ttime\tword_len\tfreq\tsurprisal\tsurprisal_naive"]
for text in range(1, 5):
    for word in range(60):
        length = int(random.integers(1, 12))
        freq = 3 + 0.6 * length + random.normal(0, 1.5)
        surprisal = abs(random.normal(4, 3))
        naive = abs(surprisal + random.normal(0, 0.5))
        time = 200 + 6 * length + 3 * freq + 4 * surprisal + random.normal(0, 20)
        cells = [f"{value:.6f}" for value in (time, length, freq, surprisal, naive)]
        if random.random() < 0.03:
            cells[int(random.integers(0, 3))] = ""
        lines.append("\t".join([str(text), str(word), "NA" if word == 7 else f"w{word}", *cells]))
Path(__file__).with_name("small.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
