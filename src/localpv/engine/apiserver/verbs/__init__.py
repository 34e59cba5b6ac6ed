"""What can be done with a resource, one file per verb."""
