# cmake --install: libraries, header, CMake package, pkg-config file, man pages. Programs are installed where they are made.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringtree)
set_target_properties(ringtree_static PROPERTIES EXPORT_NAME static)
# Two exports: whoever links the shared library needs nothing else, the static one needs libsodium's development files.
install(TARGETS ringtree EXPORT shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ringtree_static EXPORT static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT shared NAMESPACE ringtree:: FILE ringtree-shared.cmake DESTINATION ${package_folder})
install(EXPORT static NAMESPACE ringtree:: FILE ringtree-static.cmake DESTINATION ${package_folder})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ringtree DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/ringtree-config.cmake.in ${CMAKE_BINARY_DIR}/ringtree-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ringtree-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ringtree-config.cmake ${CMAKE_BINARY_DIR}/ringtree-config-version.cmake
        DESTINATION ${package_folder})

# The prefix as seen from the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH RT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_SOURCE_DIR}/cmake/ringtree.pc.in ${CMAKE_BINARY_DIR}/ringtree.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ringtree.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
