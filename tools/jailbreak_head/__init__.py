"""How the head that tells attacks from other texts is trained and measured.

The command is tools/train_jailbreak_head.py.
"""
