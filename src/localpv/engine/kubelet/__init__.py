"""Runs the pods of this machine in an existing container runtime: images, containers, status, logs, exec."""
