"""Durable chats: accounts, branching messages, the jobs that answer them, and their token logs.

All state that matters is in SQL: SQLite in `RADIXWAY_HOME`, or PostgreSQL by its URL. `service.py` puts the
package together from the configuration. A question becomes an answer in this order:

    messages.py           writes the answer's empty message and its job in one transaction
    job_queue.py          leases the job to a worker, and writes the answer's text and end
    active_answers.py     holds the leases of this process, renews them, and ends what is overdue
    local_completions.py  answers with the gateway's own workers; `pull/` serves workers that fetch their jobs

Text reaches the database through two files: `answer_attempt.py` is what the readers of a worker's stream call
(`send_text`); it publishes to `token_log.py`, which listeners follow, and writes through `job_queue.py`
(`mark_begun` with the first token, `save_partial_answers` every second, `finish_job` at the end).

State, and the file that owns it:

- `messages.py`, `job_queue.py`: chats, messages and the jobs that answer them, in the database; a message
  and its job are one transaction, and only the current attempt changes anything. Jobs in state `blocked`
  wait for the answer above them
- `active_answers.py`: answers under way in this process, an `AnswerAttempt` each, under a lease; given back
  when the process stops
- `token_log.py`: the text of answers so far; positions only grow and never mean two things. It may be lost:
  the end is in the database
- `coordination/valkey.py`: copies of these logs in Valkey, written again where the server lost
  them
- `coordination/shared_notifier.py`: messages between processes, delivered at least once; a process that may
  have missed one checks everything
- `pull/worker_sessions.py`: connected pull workers, a leased row each; `pull/worker_connection.py`: their
  attempts, each ended, lost or given back
- `stored_responses.py`, `stored_responses.py`: responses and conversations, written with message and job in
  one transaction
- `threads.py`: threads of chats in memory, validated by versions that the database raises; bounded,
  `check()` recounts
- `queue_positions.py`: places in queues, at most a second old
- `limits.py`: tables `budgets` and `rates`, counted in the transaction that ends or writes an answer
- `login/logins.py`: table `used_logins`; a login's state serves once in all processes
- `api_keys.py`: table `api_keys`, hashes alone, read with every call, so that a revoked key stops working
  at once
- `titles.py`: table `title_jobs`; a title is set where none was
- `webhooks/outbox.py`: table `deliveries`, written in the transaction of the event, taken by lease
- `privacy/row_owners.py`: the owner of each table's rows; `privacy/file_scrubber.py`: table `unscrubbed`,
  erased rows that files may still hold
- `plugins/remote_plugins.py`: manifests of plugins, for five minutes; `plugins/mcp_server.py`: connections
  to MCP servers, a task each
- `safety/safety_service.py`: whether the safety service answers
- `answer_metrics.py`: counts of ended answers, updated after the transaction
"""
