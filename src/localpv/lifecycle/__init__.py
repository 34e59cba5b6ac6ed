"""The path of a volume, one package per step; the steps do not import each other, they meet in API objects.

`config` and `records` are what the steps share: the administrator's configuration, and the LocalDisks.
"""
