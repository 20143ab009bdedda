"""Extenders: HTTP services that filter, score, preempt and bind beside the plugins."""
