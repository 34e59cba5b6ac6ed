"""What an administrator does to all volumes once: bring those of older versions up to date, or let them go."""
