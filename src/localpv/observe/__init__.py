"""What a program says of what happens: said once, heard as an event, as a condition, as a metric; never waited for.

recorder    where it is said; what was said last is not said again. Events at an API server
conditions  what keeps a disk from being offered, on its LocalDisk
claim_events  why claims and volumes do not come together
registry    counters, gauges and histograms, how many series each may have, and their text
discovery   surveys of directories, and how soon a disk was found
publishing  volumes made, deleted and given up, under the names that dashboards of the classic provisioner know
cleaning    cleanings begun, verified, failed and refused
disks       the state of disks and volumes, worked out from what is known at the moment of the scrape
requests    requests to an API server, as clients of Kubernetes count them
queues      work queues, as controllers of Kubernetes count them
engine      the embedded API server
process     memory, processor time and files of this process
"""
