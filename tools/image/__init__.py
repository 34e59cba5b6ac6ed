"""Images without a registry and without Docker: archives that a container runtime imports."""
