"""The sum over token sequences: everything that is asked of a model beyond the texts themselves.

Which spellings are the tokenizer's own and where they leave the observed tokens, the search over every spelling of a
word, and the search for next words. Nothing here knows a batch of texts or runs a model.
"""
