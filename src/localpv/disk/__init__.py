"""What a LocalDisk is: identity, phase, orders to clean, labels; `records` is where they are kept."""
