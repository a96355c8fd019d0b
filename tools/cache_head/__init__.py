"""What trains the head of the semantic cache's verifier."""
