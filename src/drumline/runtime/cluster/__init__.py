"""Several machines: hosts on nodes, their links, groups, and Ray."""
