"""Labels, annotations, taints and finalizers that Kubernetes itself gives a meaning to, and the groups of its API."""

from __future__ import annotations

from typing import Final

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
STORAGE_GROUP: Final = "storage.k8s.io"
AUTHENTICATION_GROUP: Final = "authentication.k8s.io"
ADMISSION_GROUP: Final = "admissionregistration.k8s.io"

HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCHITECTURE: Final = "kubernetes.io/arch"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

IS_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BETA_IS_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The class of a claim or a volume from before there was a field for it; it still comes first."""

ALPHA_STORAGE_CLASS: Final = "volume.alpha.kubernetes.io/storage-class"
"""Older still; Kubernetes does not know it any more, so it counts only where nothing else names a class."""

VOLUME_GROUP: Final = "volume.beta.kubernetes.io/group"
"""From a draft: how many claims, told apart by what, get volumes of one node or none."""

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""What the cluster's binder leaves on a volume it has bound, also when the claim is taken off later."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
"""On a claim that waits for a volume to be made: who makes it. Whoever binds claims writes both."""

DELETION_SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
PROVISIONER_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Keeps a volume until whoever made it has deleted what is behind it."""

CSI_PREFIX: Final = "csi.storage.k8s.io/"
"""Parameters of a class, and labels, that mean the same to every driver."""

APP_NAME: Final = "app.kubernetes.io/name"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
DESCRIPTION: Final = "kubernetes.io/description"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER: Final = "kubernetes"
"""In the spec of a namespace: it goes when the namespace is empty."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""On the bookmark of a watch that has sent all there was when it began."""

TOKEN_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What a user has among its extra when its token is bound to a node, or to a pod on a node."""

APPARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
MIRROR: Final = "kubernetes.io/config.mirror"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
REVISION_HASH: Final = "controller-revision-hash"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
