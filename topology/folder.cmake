# expat and hwloc are loaded by name when they are needed; to build, their headers are enough.
if(EXPAT_FOUND)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/topology/xml.c APPEND PROPERTY COMPILE_DEFINITIONS RT_HAVE_EXPAT=1)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/topology/xml.c APPEND PROPERTY INCLUDE_DIRECTORIES ${EXPAT_INCLUDE_DIRS})
endif()
