rt_kernels(${CMAKE_SOURCE_DIR}/src/reduce)
