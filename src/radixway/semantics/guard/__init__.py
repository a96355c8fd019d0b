"""Nothing harmful in, nothing private out: personal data, attacks on the prompt, what is done about them.

And the record of what was done.
"""
