if(UCX_FOUND)
  rt_fuzz(ucx SOURCES fuzz_ucx.c ${CMAKE_SOURCE_DIR}/bindings/nccl-net/handle.c
                      ${CMAKE_SOURCE_DIR}/src/bootstrap/auth.c ${CMAKE_SOURCE_DIR}/tests/transports/standin_control.c
                      FOLDERS ucx topology base)
  target_include_directories(fuzz_ucx PRIVATE ${CMAKE_SOURCE_DIR}/bindings)
endif()
