if(IBVERBS_FOUND)
  rt_fuzz(verbs SOURCES fuzz_verbs.c ${CMAKE_SOURCE_DIR}/tests/rdma/fake.c
                        ${CMAKE_SOURCE_DIR}/tests/transports/standin_control.c FOLDERS verbs tcp topology base)
endif()
