"""What an object of a kind looks like: fields, types, defaults, and how lists merge."""
