"""What the administrator configured: the ConfigMap of the classic provisioner, and our additions to it.

    settings      what a configuration is, once it was read and found right
    reading       texts of a ConfigMap -> settings, or problems with their places
    sources       where the texts come from: a mounted folder or a ConfigMap; which configuration is in force
    values        the YAML of one key, read by the type that is expected there
    globs         name patterns
    cleaners      how disks are cleaned: built-in methods, the classic scripts, commands of one's own
    classic       what is meant where the classic provisioner has other defaults
    local_storage what a LocalStorage means: groups of nodes, matches, classes, and everything that is refused
    udev_match    match keys of udev, and nothing else of it
    overlaps      classes that would offer the same disk
    environment   what is configured by environment variables

Nothing wrong is guessed away: an unknown key is a problem, and the last good configuration stays in force.
"""
