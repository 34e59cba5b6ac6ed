"""The Kubernetes wire: kinds, schemas, quantities, selectors, patches, Status. Computes, never waits."""
