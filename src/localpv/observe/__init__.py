"""What is counted and measured, in the text that Prometheus reads; costs nothing more when nobody does.

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
