"""*Playground*: a prompt, and everything that is made of it: signals, decision, worker, and the answer."""
