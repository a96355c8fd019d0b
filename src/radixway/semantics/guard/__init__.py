"""Nothing harmful in, nothing private out: personal data, attacks on the prompt, what is done about them.

And the record of what was done.

State, and the file that owns it:

- `guard_context.py`: a request before the guard; its tasks end with the request, on every way out
- `placeholders.py`: the values that placeholders stand for, a `PlaceholderVault` per request; in memory,
  bounded
- `findings_cache.py`: findings by keyed digest of the text, never a text; bounded
- `jailbreak/patterns.py`: compiled attack patterns, once per process; never changes
- `jailbreak/head_reader.py`: the jailbreak head, loaded with the first text; a failed load is not repeated
  and is shown by `describe()`
- `answers/watched_text.py`, `answers/event_queue.py`: an answer under inspection; an event leaves in order,
  when all its texts are decided
- `answers/response_inspection.py`: indices of the latest 64 system prompts, by digest
- `audit/log.py`: the audit log, in a thread of its own; each entry is chained to the hash of the one
  before, under a lock that processes share
- `audit/pseudonyms.py`: a key per user in the audit log; deleting one overwrites it
"""
