rt_kernels(${CMAKE_SOURCE_DIR}/src/codec)
target_compile_options(codec PRIVATE -ffp-contract=off)
