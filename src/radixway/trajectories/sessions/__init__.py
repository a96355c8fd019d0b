"""Sessions: the conversations of agents that know nothing of tokens, each a tree of calls.

Pure bookkeeping over the store; who calls workers and answers agents is `surfaces/agents/`.
"""

from radixway.trajectories.sessions.archive import Archive
from radixway.trajectories.sessions.book import SessionBook, SessionExists, TooManySessions
from radixway.trajectories.sessions.call import Call, Finish, Turn
from radixway.trajectories.sessions.matching import Known, Wanted, find_known
from radixway.trajectories.sessions.prompting import Prompt, Prompting
from radixway.trajectories.sessions.sample import Sample, make_samples
from radixway.trajectories.sessions.session import Session

__all__ = [
    "Archive",
    "Call",
    "Finish",
    "Known",
    "Prompt",
    "Prompting",
    "Sample",
    "Session",
    "SessionBook",
    "SessionExists",
    "TooManySessions",
    "Turn",
    "Wanted",
    "find_known",
    "make_samples",
]
