# perf/compare: its protocol as a unit, what it makes of measurements, and its short form against the recorded ratios.
set(compare ${CMAKE_SOURCE_DIR}/perf/compare)
rt_test(perf_compare_protocol SOURCES compare_test.c ${compare}/board.c ${compare}/pattern.c ${compare}/measure.c
        ${compare}/protocol.c LABELS perf)
if(Python3_FOUND)
  add_test(NAME perf_compare_reports COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/compare_test.py)
  set_tests_properties(perf_compare_reports PROPERTIES TIMEOUT 60 LABELS perf)
  # an instrumented library is not what was recorded
  if(NOT RINGTREE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
    add_test(NAME perf_compare COMMAND ${Python3_EXECUTABLE} ${compare} --ci --build ${CMAKE_BINARY_DIR})
    set_tests_properties(perf_compare PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL TRUE LABELS perf)
  endif()
endif()
