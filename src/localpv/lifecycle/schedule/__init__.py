"""Choose a node for a pod: one that can serve all of its claims together."""
