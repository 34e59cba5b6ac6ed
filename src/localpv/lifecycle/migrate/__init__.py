"""One-time changes of volumes that older versions made."""
