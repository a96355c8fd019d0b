"""The tool that learns when a strong model is worth its price, on rows of the sample."""

import gzip
import json
import sys

import numpy as np
import pytest

import train_quality_head
from evaluation.routing import SAMPLE
from radixway.semantics.encoders.heads.quality_head import QualityHead


@pytest.mark.slow
def test_a_table_becomes_a_head_and_a_threshold_for_each_share_of_strong_calls(tmp_path, monkeypatch, capsys):
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if row["set"] == "mmlu" and len(row["question"]) < 100][:120]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "tier.npz"
    arguments = [str(table), "--weak", "mixtral_8x7b", "--strong", "gpt4", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["train_quality_head.py", *arguments])
    train_quality_head.main()
    head = QualityHead.read_file(out)
    assert head.models == ("mixtral_8x7b", "gpt4") and head.domains is None
    thresholds = [float(line.split()[2]) for line in capsys.readouterr().out.splitlines() if "0 %" in line]
    assert len(thresholds) == 9 and np.all(np.diff(thresholds) <= 0)
