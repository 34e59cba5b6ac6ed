"""What is particular to each kind: defaults, validation, what a status update may touch, field selectors, columns."""
