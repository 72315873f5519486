"""From hidden states to log p(target) and atom log-masses."""
