# As in src/reduce: each path is compiled for its own CPUs, without contraction, so that all round alike.
set(rt_kernel_flags -ffp-contract=off)
if(RINGTREE_SANITIZE)
  list(APPEND rt_kernel_flags -O1)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  list(APPEND rt_kernel_flags -O3)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/codec/kernels_scalar.c PROPERTIES
                            COMPILE_OPTIONS "${rt_kernel_flags}")
set(rt_avx512_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/codec/kernels_avx2.c PROPERTIES
                              COMPILE_OPTIONS "${rt_kernel_flags};-mavx2;-mf16c")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/codec/kernels_avx512.c PROPERTIES
                              COMPILE_OPTIONS "${rt_kernel_flags};${rt_avx512_flags}")
endif()
target_compile_options(codec PRIVATE -ffp-contract=off)
