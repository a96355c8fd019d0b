"""Titles of chats, made by a model after a chat's first complete answer.

The job is written in the transaction that ends the answer. It passes the gateway's pipeline like an answer,
behind all answers: one at a time, at the least priority, and not while any answer waits for a worker. A title
that a user gave is never overwritten.
"""

from radixway.chat.titles.title_jobs import TitleJob, TitleJobs
from radixway.chat.titles.titler import ChatTitler, clean_title

__all__ = ["ChatTitler", "TitleJob", "TitleJobs", "clean_title"]
