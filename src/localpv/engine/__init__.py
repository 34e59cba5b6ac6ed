"""The one-machine Kubernetes: store, API server, binder, scheduler, controllers and kubelet."""
