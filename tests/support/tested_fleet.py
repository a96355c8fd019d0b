"""A fleet on a clock of the test's, and requests to it."""

import random

from radixway.cluster.prefix_router.call_prompt import hash_even_blocks, hash_fine_blocks
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings, PrefixTiers
from radixway.cluster.prefix_router.replica_fleet import ReplicaFleet
from radixway.core.config import ExpectedTimePolicyConfig
from radixway.routing import RoutingRequest
from radixway.routing.policies import make_policy

SEED = 7


class TestedFleet:
    """Replicas `a`, `b`, … behind one router's decisions."""

    __test__ = False

    def __init__(self, replicas="ab", policy="tiers", **settings):
        self.now = 1000.0
        self.fleet = ReplicaFleet(PrefixSettings(**settings), lambda: self.now, random.Random(0))
        for name in replicas:
            self.fleet.add_replica(name)
        self.names_blocks = hash_even_blocks
        self.policy = make_policy(ExpectedTimePolicyConfig(), random.Random(0))
        if policy == "tiers":
            self.names_blocks = hash_fine_blocks
            self.policy = PrefixTiers(self.fleet.seen.settings, random.Random(0), self.fleet.replica_share)
        self.sent = 0

    def request(self, text):
        data = text.encode()
        return RoutingRequest(tokens=-(-len(data) // 4), blocks=self.names_blocks(data, SEED))

    def choose(self, text, among=None):
        """Where a prompt would go, and why."""
        names = among or self.fleet.seen.replicas
        request = self.request(text)
        choice = self.fleet.choose_replica(
            request, [self.fleet.find_worker(name) for name in names], self.policy
        )
        return choice.worker.name, choice.scores.reason

    def send(self, text, to=None):
        """A prompt goes where it should, or to the replica named; the replica, and the request's name."""
        replica = to or self.choose(text)[0]
        self.sent += 1
        self.fleet.start_request(replica, str(self.sent), self.request(text), 0)
        self.fleet.check()
        return replica, str(self.sent)

    def send_and_end(self, text, to=None):
        replica, name = self.send(text, to)
        self.fleet.end_request(replica, name)
        return replica
