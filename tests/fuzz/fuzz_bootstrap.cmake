rt_fuzz(bootstrap SOURCES fuzz_bootstrap.c FOLDERS bootstrap topology base)
