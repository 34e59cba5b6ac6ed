"""The path of a volume, one package per step; the steps do not import each other, they meet in API objects.

`config` and `records` are what the steps share: the administrator's configuration, and the LocalDisks. `volumes`,
`nodes` and `surroundings` are the cluster as the manager sees it, `events` and `reports` how it tells people, `view`
what it has seen of the disks; `manager` puts publishing and releasing together.
"""
