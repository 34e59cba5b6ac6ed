"""What is on the node becomes LocalDisks that say whether they are offered, and why not.

`entry`       what one look at a discovery directory and the mount table shows of an entry
`probe`       what a look at the disk itself shows
`candidate`   a disk with all that is known about it
`rules`       whether it may be offered, with a word and a sentence
`presence`    the rules for every disk: whether it is there, and what it was
`eligibility` the rules for those that no volume has
`duplicates`  which of several entries that lead to the same disk is the one that counts
`remains`     whether a tenant has a disk, and what the last one may have left on it
`phase`       where on the circle a disk is, as its record tells it
`survey`      one look at the directory of a class
`inventory`   all that is known about entries
`keeper`      the records of this node
`reconciler`  brings the record of one entry in step with what is there
`triggers`    what the kernel tells
`discovery`   the component that keeps the records of one node true
"""

from localpv.agent.discover.discovery import Discovery

__all__ = ["Discovery"]
