"""What the guard does to answers: placeholders, personal data, system prompts, addresses that tell too much.

Streams are held back no further than they must be.
"""
