rt_fuzz(codec SOURCES fuzz_codec.c FOLDERS codec reduce base)
