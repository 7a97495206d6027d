# libringtree.so and .a from the object libraries.
set(objects "")
foreach(folder IN LISTS RT_FOLDERS)
  if(NOT folder STREQUAL "verify")
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
  endif()
endforeach()

add_library(ringtree SHARED ${objects})
add_library(ringtree_static STATIC ${objects})
set_target_properties(ringtree PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/ringtree.map)
set_target_properties(ringtree_static PROPERTIES OUTPUT_NAME ringtree LINKER_LANGUAGE C)
target_link_options(ringtree PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/ringtree.map)
if(NOT RINGTREE_SANITIZE)
  target_link_options(ringtree PRIVATE -Wl,-z,defs)
else()
  target_link_options(ringtree PRIVATE -fsanitize=${RINGTREE_SANITIZE})
endif()
foreach(target ringtree ringtree_static)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE PkgConfig::SODIUM Threads::Threads m ${CMAKE_DL_LIBS})
endforeach()
