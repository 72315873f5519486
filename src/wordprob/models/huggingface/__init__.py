"""Hugging Face causal language models."""
