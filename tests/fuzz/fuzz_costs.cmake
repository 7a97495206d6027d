rt_fuzz(costs SOURCES fuzz_costs.c FOLDERS all)
