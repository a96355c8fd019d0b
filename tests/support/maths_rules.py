"""Rules by which one kind of question is told from all others."""

RULES = """\
default_model: radixway-guide
keyword_rules:
  - {category: math, keywords: [theorem, proof]}
categories:
  - name: math
    model_scores:
      - {model: radixway-guide, score: 0.9, use_reasoning: false}
"""
