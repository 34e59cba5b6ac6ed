"""Everything that puts localpv onto a Kubernetes cluster, built as plain objects; nothing here talks to a server.

plan        what is to be installed: image, namespace, classes, how the pods run
reading     the short configuration file -> a plan, or all that is wrong with it
everything  a plan -> all objects, in the order in which they can be applied
access      service accounts, roles and their bindings
policy      the admission policy that keeps each agent to its own node
storage     ConfigMap and StorageClasses
pods        parts that the pods share
workloads   the agents' DaemonSet, the manager's Deployment, the drop-in's DaemonSet
monitoring  what tells the Prometheus operator where the metrics are
bootstrap   what `localpv bootstrap` makes from a ConfigMap that names only host directories
printing    objects as YAML for `kubectl apply -f -`
"""
