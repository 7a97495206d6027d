rt_fuzz(frame SOURCES fuzz_frame.c ${CMAKE_SOURCE_DIR}/tests/transports/standin_control.c FOLDERS tcp topology base)
