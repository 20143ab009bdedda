"""Out-of-tree plugins: how they are found and checked, and how their faults are contained."""
