"""Finds personal data and attacks in requests and answers, acts on them, and records what was done.

Start at `middleware.py`: `Guard` reads a request's texts (`passages.py`), `text_scanner.py` asks the personal
data finder (`pii/finder.py`) and the attack judge (`jailbreak/attack_judge.py`), `policy.py` decides, and
once the model is known, the request is redacted (`redaction.py`) or blocked. `answers/` does the same for
what models say, `audit/` keeps the log, and `service.py` puts it all together for a gateway.

To add a recogniser of personal data, write one module in `pii/recognisers/` that lists it in `RECOGNISERS`
(see `pii/recognisers/ip_addresses.py`), and its test. To add a known wording of attacks, add a `[[patterns]]`
table to a file of `bundled/attack_patterns/`.

State, and the file that owns it:

- `guard_context.py`: a request before the guard; its tasks end with the request, on every way out
- `redaction.py`: the values that placeholders stand for, a `PlaceholderVault` per request; in memory, bounded
- `text_scanner.py`: findings by keyed digest of the text, never a text; bounded
- `jailbreak/patterns.py`: compiled attack patterns, once per process; never changes
- `jailbreak/jailbreak_head.py`: the head, loaded with the first text; a failed load is not repeated
  and is shown by `describe()`
- `answers/watched_text.py`, `answers/event_queue.py`: an answer under inspection; an event leaves in order,
  when all its texts are decided
- `answers/system_prompt.py`: indices of the latest 64 system prompts
- `audit/log.py`: the audit log, in a thread of its own; each entry is chained to the hash of the one
  before, under a lock that processes share
- `audit/pseudonyms.py`: a key per user in the audit log; deleting one overwrites it
"""
