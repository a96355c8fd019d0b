"""What a request means: signals, and the decision they add up to.

Which model answers it, under which system prompt, thinking or not, with which tools.
"""
