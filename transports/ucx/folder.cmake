# UCX is loaded by name when it is needed; to build, its headers are enough.
target_include_directories(ucx SYSTEM PRIVATE ${UCX_INCLUDE_DIRS})
