"""Measures how good the shipped parts are, on labelled data: data/ beside the code, or files of your own.

    python tools/evaluate.py domain|cache|routing|tools [--json FILE] [--plot FILE.svg]
    python tools/evaluate.py wrapped|conversations|choices [--json FILE]
    python tools/evaluate.py guard pii|jailbreak [--data FILE] [--json FILE] [--plot FILE.svg]

Needs radixway[semantic], for plots radixway[simulate]; `--help` after a command lists its options.
"""

from evaluation.commands import app

if __name__ == "__main__":
    app()
