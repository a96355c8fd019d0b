"""Sessions: the conversations of agents that know nothing of tokens, each a tree of calls.

Pure bookkeeping over the store; who calls workers and answers agents is `surfaces/agents/`.
"""

from radixway.trajectories.sessions.archive import SessionArchive
from radixway.trajectories.sessions.book import SessionExistsError, SessionRegistry, TooManySessionsError
from radixway.trajectories.sessions.call import Finish, PendingCall, SessionCall
from radixway.trajectories.sessions.matching import CallRequest, KnownHistory, match_history
from radixway.trajectories.sessions.prompting import PromptBuilder, SessionPrompt
from radixway.trajectories.sessions.sample import TrainingSample, make_samples
from radixway.trajectories.sessions.session import AgentSession

__all__ = [
    "AgentSession",
    "CallRequest",
    "Finish",
    "KnownHistory",
    "PendingCall",
    "PromptBuilder",
    "SessionArchive",
    "SessionCall",
    "SessionExistsError",
    "SessionPrompt",
    "SessionRegistry",
    "TooManySessionsError",
    "TrainingSample",
    "make_samples",
    "match_history",
]
