"""How the domain head that ships is trained and measured; the command is tools/train_domain_head.py."""
