"""How good the shipped parts are, on labelled data: `python tools/evaluate.py`.

A module per part. Each reads rows, runs the very code that serves requests, and returns figures; tables and
plots are the command's."""
