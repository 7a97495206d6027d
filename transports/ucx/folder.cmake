# UCX is loaded by name when it is needed; to build, its headers are enough. Without them only the table says so.
if(UCX_FOUND)
  target_compile_definitions(ucx PRIVATE RT_HAVE_UCX=1)
  target_include_directories(ucx SYSTEM PRIVATE ${UCX_INCLUDE_DIRS})
else()
  foreach(source load.c worker.c pair.c send.c recv.c words.c)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/transports/ucx/${source} PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
endif()
