"""`radixway top`: a running gateway in a terminal, as live numbers.

Start at `command.py`. It reads the gateway's public HTTP API only: `/metrics/prometheus`, `/list_workers` and
`/requests`. The screen needs the extra `console` (Textual); one frame as text or JSON needs nothing.
"""
