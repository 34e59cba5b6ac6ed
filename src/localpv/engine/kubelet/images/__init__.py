"""The images that containers are made from: imported from archives, unpacked, found by name."""
