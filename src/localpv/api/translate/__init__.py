"""Manifests from the time when local volumes were drafts, in the words that Kubernetes has for the same today.

Inline volumes and alpha annotations become ephemeral volumes, classes and node affinity (`manifests`, `inline`), and
objects of OpenShift's Local Storage Operator become LocalStorages (`openshift`). Only objects as dictionaries and texts
are worked on here: nothing is read from a server, nothing is written to one.
"""
