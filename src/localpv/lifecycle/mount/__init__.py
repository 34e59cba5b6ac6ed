"""From a bound claim to a path or a device inside the pod, and back out."""
