"""What makes pods on the embedded engine, StatefulSets, Deployments, Jobs, and the claims that come with pods.

On Kubernetes its own controller manager does this work, and where the two differ it is right. Each controller reads
what exists and its own latest writes, and takes a step towards what is wanted. None of them touches a disk.
"""
