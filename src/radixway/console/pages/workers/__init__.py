"""*Workers*: who answers requests, how they are, and adding and taking them out."""
