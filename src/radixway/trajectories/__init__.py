"""What was sampled, exactly: text → tokens, log-probabilities, loss masks and weight versions.

A radix tree of tokens that is found by text, and the sessions of agents that know nothing of tokens.
"""
