rt_fuzz(nccl      SOURCES fuzz_nccl.c      FOLDERS topology base)
rt_fuzz(synthetic SOURCES fuzz_synthetic.c FOLDERS topology base)
rt_fuzz(pack      SOURCES fuzz_pack.c      FOLDERS topology base)
