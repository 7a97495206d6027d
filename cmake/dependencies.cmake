# Required: libsodium (HMAC and random secrets). Optional parts are added to RT_OPTIONAL as "name|found or why not".
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)

set(RT_OPTIONAL "")
if(JANSSON_FOUND)
  list(APPEND RT_OPTIONAL "JSON output of the benchmark|found jansson ${JANSSON_VERSION}")
else()
  list(APPEND RT_OPTIONAL "JSON output of the benchmark|not built: libjansson-dev not found")
endif()
