"""The sum over token sequences: everything that is asked of a model beyond the texts themselves.

Events read token by token, the search for their mass, which spellings are the tokenizer's own and where they leave the
observed tokens, and the search for next words. Nothing here knows a table or a user's options.
"""
